// The calls that all optimizers have: steps, and the state for checkpoints.
// Base of Sgd, Adam and Optimizer. Header-internal: users step one of these. Threads: one at a
// time, the one whose stream owns the parameters.
// Invariant: a failed step changes nothing and does not count, as in OptimizerState.
#pragma once

#include <hearth/modules/optimizer_state.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace hearth::detail {

/// `Self` is the derived class. It has update(), and state(), which returns its OptimizerState.
template <class Self>
class OptimizerCalls {
 public:
  // Overload for types that are no modules: fails with a readable static_assert.
  template <class Model>
  requires(!Module<Model>) void step(Model& /*model*/, Gradients&& /*gradients*/) {
    static_assert(refuse_no_module<Model>());
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
    return self().update(parameter_refs(model), std::move(gradients), std::move(joint), loc);
  }
  // Compilers show the line: it is the message.
  // clang-format off
  template <Module Model>
  Pending<StepReport> step(Model&, const Gradients&, JointUpdate = {}, SourceLoc = SourceLoc::current()) = delete;  // a step takes the gradients over: step(model, std::move(gradients))
  // clang-format on

  /// Creates the state that step() would create, so that it can be loaded. Waits for the step in
  /// flight.
  template <Module Model>
  void prepare(Model& model, SourceLoc loc = SourceLoc::current()) {
    self().state().prepare(parameter_refs(model), loc);
  }
  void prepare(std::span<const ParameterRef> parameters, SourceLoc loc = SourceLoc::current()) {
    self().state().prepare(parameters, loc);
  }

  /// Number of steps that happened. Waits for the one in flight.
  [[nodiscard]] std::int64_t step_count() { return self().state().step_count(); }
  /// The steps in which parameters had no gradient and were skipped. Waits for the step in flight.
  [[nodiscard]] SkippedSteps skipped_steps() { return self().state().skipped_steps(); }
  /// Sets the number of completed steps. Call after loading the state.
  void set_step_count(std::int64_t count, SourceLoc loc = SourceLoc::current()) {
    self().state().set_step_count(count, {}, loc);
  }
  /// Sets the number of completed steps, and of those that skipped parameters. Call after
  /// prepare().
  ///
  /// Errors: ArgumentError for an unknown parameter.
  void set_step_count(std::int64_t count,
                      const SkippedSteps& skipped,
                      SourceLoc loc = SourceLoc::current()) {
    self().state().set_step_count(count, skipped, loc);
  }

  /// Visits the tensors of the state by path: "momentum.<parameter>" of Sgd, "mean.<parameter>",
  /// then "variance.<parameter>" of Adam. None before the first step or prepare().
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) {
    self().state().visit(prefix, fn);
  }
  template <class Fn>
  void visit(const std::string& prefix, Fn&& fn) const {
    static_cast<const Self&>(*this).state().visit(prefix, fn);
  }

 protected:
  OptimizerCalls() = default;

 private:
  [[nodiscard]] Self& self() noexcept { return static_cast<Self&>(*this); }
};

}  // namespace hearth::detail
