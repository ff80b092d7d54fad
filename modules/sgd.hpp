// Sgd: stochastic gradient descent with momentum.
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

/// g += weight_decay·p; m = momentum·m + (1 - dampening)·g, the first time m = g;
/// g = nesterov ? g + momentum·m : m; p -= learning_rate·g. As in PyTorch.
/// Paper: Sutskever et al., On the importance of initialization and momentum in deep learning,
/// ICML 2013.
class Sgd final {
 public:
  struct Config {
    double learning_rate = 1e-2;              ///< set_learning_rate() sets another.
    double momentum = 0;                      ///< Decay of the velocity; 0: none.
    double dampening = 0;                     ///< Part of a gradient that the velocity leaves out.
    double weight_decay = 0;                  ///< Times p, added to the gradient.
    bool nesterov = false;                    ///< Looks ahead by the velocity; needs momentum.
    std::vector<ParameterGroup> groups = {};  ///< Other settings for some parameters.
  };

  /// Errors: ArgumentError when a setting is negative or not finite, Nesterov's form is asked for
  /// without momentum or with dampening, or a group sets nothing.
  explicit Sgd(const Config& config, SourceLoc loc = SourceLoc::current());

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

  /// The state: "momentum.<parameter>". Nothing before the first step or prepare().
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
