// Adam and AdamW.
// Owned by the training loop; move-only. Threads: one at a time, the one whose stream owns the
// parameters.
// Invariant: a failed step changes nothing and does not count, as in OptimizerState.
#pragma once

#include <hearth/modules/optimizer_state.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace hearth {

/// Adam: m = β1·m + (1 - β1)·g; v = β2·v + (1 - β2)·g²;
/// p -= learning_rate·(m/(1 - β1^t)) / (sqrt(v/(1 - β2^t)) + epsilon), where t numbers the
/// parameter's updates.
///
/// Weight decay is added to g. If `decoupled`, p is first scaled by 1 - learning_rate·weight_decay
/// instead.
///
/// Paper: Kingma, Ba, Adam, arXiv:1412.6980, algorithm 1; decoupled: Loshchilov, Hutter, Decoupled
/// Weight Decay Regularization, arXiv:1711.05101.
class Adam {
 public:
  struct Config {
    double learning_rate = 1e-3;  ///< Learning rate; set_learning_rate() changes it.
    double beta1 = 0.9;           ///< Decay of the mean of gradients.
    double beta2 = 0.999;         ///< Decay of the mean of squared gradients.
    double epsilon = 1e-8;        ///< Added to the root in the denominator.
    /// Adds weight_decay·p to the gradient, or scales p if `decoupled`.
    double weight_decay = 0;
    bool decoupled = false;  ///< Whether weight decay scales p directly, as in AdamW.
    std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.
  };

  /// Errors: ArgumentError when a setting is negative or not finite, a beta is not below 1, or a
  /// group sets nothing.
  explicit Adam(const Config& config, SourceLoc loc = SourceLoc::current());

  // Overload for types that are no modules: fails with a readable static_assert.
  template <class Model>
  requires(!Module<Model>) void step(Model& /*model*/, Gradients&& /*gradients*/) {
    static_assert(detail::refuse_no_module<Model>());
  }
  /// Updates the whole model or nothing. Replaces the model's tensors at once; their memory is
  /// reused unless other tensors share it.
  ///
  /// A parameter without a gradient (Gradients::has_gradient) is skipped: it is not decayed, its
  /// state stays, and the step does not count for it. A tied parameter is updated once.
  ///
  /// With `joint`, the step is atomic together with steps on other devices.
  ///
  /// Errors: ArgumentError now when gradients do not match the parameters or a group matches none.
  /// A poisoned gradient is reported by the Pending, and the model keeps its values. If a Pending
  /// was dropped unread, the next step() throws its error and does not consume the gradients.
  /// Threads: waits for this optimizer's previous step. On an asynchronous device it does not wait,
  /// and throws known failures of earlier steps.
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

  /// Creates the state that step() would create, so that it can be loaded. Waits for the step in
  /// flight.
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
  /// Number of steps that happened. Waits for the one in flight.
  [[nodiscard]] std::int64_t step_count() { return state_.step_count(); }
  /// The steps in which parameters had no gradient and were skipped. Waits for the step in flight.
  [[nodiscard]] SkippedSteps skipped_steps() { return state_.skipped_steps(); }
  /// Sets the number of completed steps. Call after loading the state.
  void set_step_count(std::int64_t count, SourceLoc loc = SourceLoc::current()) {
    state_.set_step_count(count, {}, loc);
  }
  /// Sets the number of completed steps, and of those that skipped parameters. Call after
  /// prepare().
  ///
  /// Errors: ArgumentError for an unknown parameter.
  void set_step_count(std::int64_t count,
                      const SkippedSteps& skipped,
                      SourceLoc loc = SourceLoc::current()) {
    state_.set_step_count(count, skipped, loc);
  }

  /// Visits the state: "mean.<parameter>", then "variance.<parameter>". Empty before the first step
  /// or prepare().
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
    double learning_rate = 1e-3;  ///< Learning rate; set_learning_rate() changes it.
    double beta1 = 0.9;           ///< Decay of the mean of gradients.
    double beta2 = 0.999;         ///< Decay of the mean of squared gradients.
    double epsilon = 1e-8;        ///< Added to the root in the denominator.
    double weight_decay = 1e-2;   ///< Each step scales p by 1 - learning_rate·weight_decay.
    std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.
  };
  explicit AdamW(const Config& config, SourceLoc loc = SourceLoc::current());
};

}  // namespace hearth
