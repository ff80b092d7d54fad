// Sgd: stochastic gradient descent with momentum.
// Owned by the training loop; move-only. Threads: one at a time, the one whose stream owns the
// parameters.
// Invariant: a failed step changes nothing and does not count, as in OptimizerState.
#pragma once

#include <hearth/modules/optimizer_calls.hpp>

#include <span>
#include <vector>

namespace hearth {

/// Stochastic gradient descent, with PyTorch's formula:
/// g += weight_decay·p; m = momentum·m + (1 - dampening)·g, at first m = g;
/// g = nesterov ? g + momentum·m : m; p -= learning_rate·g.
///
/// Paper: Sutskever et al., On the importance of initialization and momentum in deep learning, ICML
/// 2013.
class Sgd final : public detail::OptimizerCalls<Sgd> {
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

  /// step() with parameters that the caller lists.
  Pending<StepReport> update(std::span<const ParameterRef> parameters,
                             Gradients&& gradients,
                             JointUpdate joint = {},
                             SourceLoc loc = SourceLoc::current());

  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] double learning_rate() const noexcept { return config_.learning_rate; }
  /// Errors: ArgumentError when negative or not finite.
  void set_learning_rate(double rate, SourceLoc loc = SourceLoc::current());

 private:
  friend class detail::OptimizerCalls<Sgd>;
  friend class Optimizer;
  [[nodiscard]] OptimizerState& state() noexcept { return state_; }
  [[nodiscard]] const OptimizerState& state() const noexcept { return state_; }

  Config config_;
  OptimizerState state_;
};

}  // namespace hearth
