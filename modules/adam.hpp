// Adam and AdamW.
// Owned by the training loop, moved, never copied. Threads: one at a time, the one whose stream
// owns the parameters. Invariant: as OptimizerState's: a failed step changes nothing, and counts
// for nothing.
#pragma once

#include <hearth/modules/optimizer_state.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hearth {

/// m = β1·m + (1 - β1)·g; v = β2·v + (1 - β2)·g²;
/// p -= learning_rate·(m/(1 - β1^t)) / (sqrt(v/(1 - β2^t)) + epsilon), with t the number of the
/// parameter's update.
/// Weight decay is added to g, or, decoupled, p is scaled by 1 - learning_rate·weight_decay first.
/// Paper: Kingma, Ba, Adam, arXiv:1412.6980, algorithm 1; decoupled: Loshchilov, Hutter, Decoupled
/// Weight Decay Regularization, arXiv:1711.05101.
class Adam {
 public:
  struct Config {
    double learning_rate = 1e-3;              ///< set_learning_rate() sets another.
    double beta1 = 0.9;                       ///< Decay of the mean of gradients.
    double beta2 = 0.999;                     ///< Decay of the mean of squares.
    double epsilon = 1e-8;                    ///< Added to the root.
    double weight_decay = 0;                  ///< Times p, taken off with each step.
    bool decoupled = false;                   ///< The decay of AdamW.
    std::vector<ParameterGroup> groups = {};  ///< Other settings for some parameters.
  };

  /// Errors: ArgumentError when a setting is negative or not finite, a beta is not below 1, or a
  /// group sets nothing.
  explicit Adam(const Config& config, SourceLoc loc = SourceLoc::current());

  // For what is no module.
  template <class Model>
  requires(!Module<Model>) void step(Model& /*model*/, Gradients&& /*gradients*/) {
    static_assert(detail::refuse_no_module<Model>());
  }
  /// Updates the model, all of it or nothing. The model's tensors are replaced by the updated ones
  /// at once; their memory is reused where nobody else holds them.
  ///
  /// A parameter without a gradient (Gradients::has_gradient) is left alone: it is not decayed, its
  /// state stays, and the step does not count for it. A tied one is updated once.
  ///
  /// With `joint`, it happens together with steps on other devices, or not at all.
  ///
  /// Errors: ArgumentError now when gradients and parameters do not fit, or a group matches none; a
  /// poisoned gradient comes with the Pending, and the model keeps its values. Where a Pending was
  /// dropped unread, the next step() throws what it carried, and takes nothing.
  /// Threads: waits for this optimizer's step before, if that is still under way; on a device that
  /// answers later it waits for none, and throws what is known of earlier ones.
  template <Module Model>
  Pending<StepReport> step(Model& model,
                           Gradients&& gradients,
                           JointUpdate joint = {},
                           SourceLoc loc = SourceLoc::current()) {
    return update(parameter_refs(model), std::move(gradients), std::move(joint), loc);
  }
  // Compilers show the line: it is the message.
  // clang-format off
  template <Module Model>
  Pending<StepReport> step(Model&, const Gradients&, JointUpdate = {}, SourceLoc = SourceLoc::current()) = delete;  // a step takes the gradients over: step(model, std::move(gradients))
  // clang-format on
  Pending<StepReport> update(std::span<const ParameterRef> parameters,
                             Gradients&& gradients,
                             JointUpdate joint = {},
                             SourceLoc loc = SourceLoc::current());

  /// Makes the state that step() would make, so that it can be loaded. Waits for the step under
  /// way.
  template <Module Model>
  void prepare(Model& model, SourceLoc loc = SourceLoc::current()) {
    state_.prepare(parameter_refs(model), loc);
  }
  void prepare(std::span<const ParameterRef> parameters, SourceLoc loc = SourceLoc::current()) {
    state_.prepare(parameters, loc);
  }

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] double learning_rate() const noexcept { return config_.learning_rate; }
  /// Errors: ArgumentError when negative or not finite.
  void set_learning_rate(double rate, SourceLoc loc = SourceLoc::current());
  /// Steps that really happened. Waits for the one under way.
  [[nodiscard]] std::int64_t step_count() { return state_.step_count(); }
  /// In how many of these a parameter had no gradient and was left alone. Waits for the step under
  /// way.
  [[nodiscard]] SkippedSteps skipped_steps() { return state_.skipped_steps(); }
  /// Says that the state stands after so many steps; comes behind the loading of it.
  void set_step_count(std::int64_t count, SourceLoc loc = SourceLoc::current()) {
    state_.set_step_count(count, {}, loc);
  }
  /// The same when some parameters had no gradient in some of them. Errors: ArgumentError for a
  /// parameter that is not there: prepare() comes first.
  void set_step_count(std::int64_t count,
                      const SkippedSteps& skipped,
                      SourceLoc loc = SourceLoc::current()) {
    state_.set_step_count(count, skipped, loc);
  }

  /// The state: "mean.<parameter>", then "variance.<parameter>". Nothing before the first step or
  /// prepare().
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    state_.visit(prefix, fn);
  }
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) const {
    state_.visit(prefix, fn);
  }

 private:
  Config config_;
  OptimizerState state_;
};

/// Adam with decoupled weight decay.
class AdamW final : public Adam {
 public:
  struct Config {
    double learning_rate = 1e-3;              ///< set_learning_rate() sets another.
    double beta1 = 0.9;                       ///< Decay of the mean of gradients.
    double beta2 = 0.999;                     ///< Decay of the mean of squares.
    double epsilon = 1e-8;                    ///< Added to the root.
    double weight_decay = 1e-2;               ///< Times p, taken off with each step.
    std::vector<ParameterGroup> groups = {};  ///< Other settings for some parameters.
  };
  explicit AdamW(const Config& config, SourceLoc loc = SourceLoc::current());
};

}  // namespace hearth
