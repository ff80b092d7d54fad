// NAdam: Adam with Nesterov's momentum.
// Plain data. Threads: values; the optimizer as RuleOptimizer.
#pragma once

#include <hearth/modules/rule_optimizer.hpp>

#include <string>
#include <vector>

namespace hearth {

/// Nesterov Adam, with PyTorch's formula: m and v as Adam; μ(s) = β1·(1 -
/// 0.96^(s·momentum_decay)/2); Π(t) = μ(1)·…·μ(t), where t numbers the parameter's updates. Then p
/// -= learning_rate · ((1 - μ(t))/(1 - Π(t))·g + μ(t+1)/(1 - Π(t+1))·m)
///      / (sqrt(v/(1 - β2^t)) + epsilon).
///
/// Paper: Dozat, Incorporating Nesterov Momentum into Adam, ICLR workshop 2016.
struct NAdamRule {
  double learning_rate = 2e-3;  ///< Learning rate; set_learning_rate() changes it.
  double beta1 = 0.9;           ///< Decay of the mean of gradients.
  double beta2 = 0.999;         ///< Decay of the mean of squared gradients.
  double epsilon = 1e-8;        ///< Added to the root in the denominator.
  /// Adds weight_decay·p to the gradient, or scales p if `decoupled`.
  double weight_decay = 0;
  double momentum_decay = 4e-3;  ///< How fast the momentum rises from β1/2 to β1.
  bool decoupled = false;        ///< Whether weight decay scales p directly, as in AdamW.
  std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.

  static std::string name() { return "NAdam"; }
  [[nodiscard]] UpdateFormula formula() const;
  [[nodiscard]] std::vector<OptimizerSetting> settings() const;
};

using NAdam = RuleOptimizer<NAdamRule>;

}  // namespace hearth
