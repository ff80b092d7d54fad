// Lamb: Adam whose steps are scaled to the norm of each parameter, for large batches.
// Plain data. Threads: values; the optimizer as RuleOptimizer.
#pragma once

#include <hearth/modules/rule_optimizer.hpp>

#include <string>
#include <vector>

namespace hearth {

/// LAMB: m and v as Adam; u = (m/(1 - β1^t)) / (sqrt(v/(1 - β2^t)) + epsilon) + weight_decay·p;
/// p -= learning_rate · ‖p‖/‖u‖ · u, where t numbers the parameter's updates. A norm of 0 makes the
/// ratio 1.
///
/// Paper: You et al., Large Batch Optimization for Deep Learning, arXiv:1904.00962, algorithm 2,
/// without a bound on ‖p‖.
struct LambRule {
  double learning_rate = 1e-3;              ///< Learning rate; set_learning_rate() changes it.
  double beta1 = 0.9;                       ///< Decay of the mean of gradients.
  double beta2 = 0.999;                     ///< Decay of the mean of squared gradients.
  double epsilon = 1e-6;                    ///< Added to the root in the denominator.
  double weight_decay = 1e-2;               ///< Adds weight_decay·p to the direction u.
  std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.

  static std::string name() { return "Lamb"; }
  [[nodiscard]] UpdateFormula formula() const;
  [[nodiscard]] std::vector<OptimizerSetting> settings() const;
};

using Lamb = RuleOptimizer<LambRule>;

}  // namespace hearth
