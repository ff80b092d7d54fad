// LossScaler: computes gradients in the types of a Precision, and steps an optimizer with them. Its
// loss scale is kept on the device, which adapts it and skips steps that overflow: the host never
// waits for it.
// Owned by the training loop, or by a rank of DataParallel. It is a module itself, so it can be
// saved, forked and handed over. Threads: the one whose stream owns the model.
// Invariant: scale and counts change with a step that happens or overflows, and with no other.
#pragma once

#include <hearth/modules/optimizer_state.hpp>
#include <hearth/modules/precision.hpp>
#include <hearth/modules/state_updates.hpp>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/gradients.hpp>
#include <hearth/runtime/loss_sum.hpp>
#include <hearth/runtime/update_group.hpp>
#include <hearth/runtime/update_rule.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace hearth {

/// Trains in mixed precision in a loop of your own:
///
///   const hearth::Precision precision{.compute = hearth::DType::f16};
///   hearth::LossScaler scaler(precision, device);
///   ...
///   auto [loss, gradients] = scaler.value_and_grad(model, [&](const Classifier& half) {
///     const hearth::Tensor outputs = half.forward(precision.input(batch->inputs));
///     return cross_entropy(precision.output(outputs), batch->targets);
///   });
///   auto report = scaler.step(adam, model, std::move(gradients));
///
/// Without a scaling (bf16) the calls cast and step, and nothing else.
/// Paper: Micikevicius et al., Mixed Precision Training, arXiv:1710.03740.
class LossScaler final {
 public:
  static constexpr std::string_view module_name() noexcept { return "LossScaler"; }

  /// Errors: DtypeError for other types; ArgumentError for a scaling out of its bounds.
  LossScaler(const Precision& precision,
             const Device& device,
             SourceLoc loc = SourceLoc::current());

  /// Runs fn on the model in the type of the forward pass, and differentiates its loss with respect
  /// to the master weights. fn: as for hearth::value_and_grad(). The loss is returned unscaled, in
  /// f32 in place of 16 bits. The gradients are unscaled too, so they can be clipped and
  /// accumulated.
  ///
  /// Several calls before a step accumulate micro-batches: the step is skipped if one of them has
  /// overflowed. Call discard() for gradients that no step takes.
  ///
  /// Errors: those of hearth::value_and_grad().
  template <class Model, class Fn>
  [[nodiscard]] auto value_and_grad(const Model& model,
                                    Fn&& fn,
                                    SourceLoc loc = SourceLoc::current()) {
    const auto scaled_loss = [&](const Model& tracked) {
      using Result = std::decay_t<decltype(std::forward<Fn>(fn)(tracked))>;
      static_assert(detail::LossTensor<Result> || detail::LossParts<Result>,
                    "the function of LossScaler::value_and_grad() returns the loss, a Tensor, a "
                    "LossSum or a LossOutputs");
      const Model half = precision_.cast(tracked, loc);
      const Tensor loss =
          wide(detail::loss_value<Result>(std::forward<Fn>(fn)(std::as_const(half)), loc), loc);
      return std::pair(scaled(loss, loc), loss);
    };
    auto [losses, gradients] = hearth::value_and_grad(model, scaled_loss, {}, loc);
    unscale(gradients, loc);
    return ValueAndGradients<Tensor>{losses.second.detach(), std::move(gradients)};
  }

  /// Steps the optimizer with unscaled gradients. The device skips the step if a gradient since the
  /// last step was NaN or infinite. Parameters, optimizer state, its counts and the model's Buffers
  /// then keep their bits. Only the scale shrinks, and skipped_steps() grows.
  /// `updates`: the pending updates of running statistics; they are applied in the same step.
  ///
  /// Errors: those of the optimizer's step() and of StateUpdates::commit().
  /// Threads: as the optimizer's step(); never waits for the outcome of this one.
  template <class Stepper, Module Model>
  Pending<StepReport> step(Stepper& optimizer,
                           Model& model,
                           Gradients&& gradients,
                           StateUpdates& updates,
                           SourceLoc loc = SourceLoc::current()) {
    JointUpdate joint = joint_update(loc);
    joint.more = [&](UpdateGroup& group) { updates.add_to(group, buffer_refs(model), loc); };
    return optimizer.step(model, std::move(gradients), std::move(joint), loc);
  }
  template <class Stepper, Module Model>
  Pending<StepReport> step(Stepper& optimizer,
                           Model& model,
                           Gradients&& gradients,
                           SourceLoc loc = SourceLoc::current()) {
    return optimizer.step(model, std::move(gradients), joint_update(loc), loc);
  }

  /// Forgets whether the gradients since the last step were finite: the program drops them. They
  /// then decide no later step, and neither does an error that they carry.
  void discard() noexcept { is_finite_ = Tensor(); }

  [[nodiscard]] const Precision& precision() const noexcept { return precision_; }
  /// Whether the loss is scaled.
  [[nodiscard]] bool is_scaling() const noexcept { return scaling_.has_value(); }
  /// The scale of the next backward pass, 1 without scaling. `scale().item_later()` reads it
  /// without a wait. Shapes: []. Dtypes: f32.
  [[nodiscard]] const Tensor& scale() const noexcept { return scale_; }
  /// Number of steps that were skipped. Shapes: []. Dtypes: f32, exact up to 2^24.
  [[nodiscard]] const Tensor& skipped_steps() const noexcept { return skipped_steps_; }

  // ---- for trainers: the parts of the calls above ----
  /// The loss times the scale. A loss that is not finite makes all gradients NaN.
  ///
  /// Shapes: one element.
  [[nodiscard]] Tensor scaled(const Tensor& loss, SourceLoc loc = SourceLoc::current()) const;
  /// Divides the gradients by the scale, in f32 in place of 16 bits, and notes whether all elements
  /// are finite.
  void unscale(Gradients& gradients, SourceLoc loc = SourceLoc::current());
  /// Whether all gradients since the last joint_update() were finite; empty without scaling.
  /// Shapes: []. Dtypes: bool.
  [[nodiscard]] const Tensor& is_finite() const noexcept { return is_finite_; }
  /// The condition of a step and the update of the scale. Call it after unscale(), once for each
  /// step. Lifetime: the scaler outlives the optimizer's call that takes it.
  [[nodiscard]] JointUpdate joint_update(SourceLoc loc = SourceLoc::current());

  /// Visits scale and counts: "scale", "good_steps", "skipped_steps". None without scaling.
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    visit_tensors(*this, prefix, fn);
  }
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) const {
    visit_tensors(*this, prefix, fn);
  }

 private:
  template <class Self, class Fn>
  static void visit_tensors(Self& self, const std::string& prefix, Fn& fn) {
    if (self.is_scaling()) {
      fn(detail::join_path(prefix, "scale"), self.scale_);
      fn(detail::join_path(prefix, "good_steps"), self.good_steps_);
      fn(detail::join_path(prefix, "skipped_steps"), self.skipped_steps_);
    }
  }
  /// The loss in f32 in place of 16 bits.
  [[nodiscard]] static Tensor wide(const Tensor& loss, SourceLoc loc);

  Precision precision_;
  std::optional<LossScaling> scaling_;
  Tensor scale_;
  Tensor good_steps_;  ///< In a row, since the scale last changed.
  Tensor skipped_steps_;
  Tensor is_finite_;
  UpdateRule rule_;
};

}  // namespace hearth
