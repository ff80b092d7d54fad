// Sgd: stochastic gradient descent with momentum.
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

/// Stochastic gradient descent, with PyTorch's formula:
/// g += weight_decay·p; m = momentum·m + (1 - dampening)·g, at first m = g;
/// g = nesterov ? g + momentum·m : m; p -= learning_rate·g.
///
/// Paper: Sutskever et al., On the importance of initialization and momentum in deep learning, ICML
/// 2013.
class Sgd final {
 public:
  struct Config {
    double learning_rate = 1e-2;  ///< Learning rate; set_learning_rate() changes it.
    double momentum = 0;          ///< Decay of the velocity; 0 disables momentum.
    double dampening = 0;         ///< Share of a gradient that is not added to the velocity.
    double weight_decay = 0;      ///< Adds weight_decay·p to the gradient.
    bool nesterov = false;        ///< Whether to use Nesterov's momentum; needs momentum.
    std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.
  };

  /// Errors: ArgumentError when a setting is negative or not finite, `nesterov` is set without
  /// momentum or with dampening, or a group sets nothing.
  explicit Sgd(const Config& config, SourceLoc loc = SourceLoc::current());

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

  /// Visits the state: "momentum.<parameter>". Empty before the first step or prepare().
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

}  // namespace hearth
