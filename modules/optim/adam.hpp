// Adam and AdamW.
// Owned by the training loop; move-only. Threads: one at a time, the one whose stream owns the
// parameters.
// Invariant: a failed step changes nothing and does not count, as in OptimizerState.
#pragma once

#include <hearth/modules/optimizer_calls.hpp>

#include <span>
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
class Adam : public detail::OptimizerCalls<Adam> {
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
  friend class detail::OptimizerCalls<Adam>;
  friend class Optimizer;
  [[nodiscard]] OptimizerState& state() noexcept { return state_; }
  [[nodiscard]] const OptimizerState& state() const noexcept { return state_; }

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
