// Adadelta: steps in the unit of the parameter, from means of squared gradients and steps.
// Plain data. Threads: values; the optimizer as RuleOptimizer.
#pragma once

#include <hearth/modules/rule_optimizer.hpp>

#include <string>
#include <vector>

namespace hearth {

/// Adadelta, with PyTorch's formula: g += weight_decay·p; v = rho·v + (1 - rho)·g²;
/// d = sqrt(u + epsilon) / sqrt(v + epsilon) · g; u = rho·u + (1 - rho)·d²;
/// p -= learning_rate·d.
///
/// Paper: Zeiler, ADADELTA, arXiv:1212.5701, algorithm 1.
struct AdadeltaRule {
  double learning_rate = 1;                 ///< Learning rate; set_learning_rate() changes it.
  double rho = 0.9;                         ///< Decay of both means.
  double epsilon = 1e-6;                    ///< Added under both roots.
  double weight_decay = 0;                  ///< Adds weight_decay·p to the gradient.
  std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.

  static std::string name() { return "Adadelta"; }
  [[nodiscard]] UpdateFormula formula() const;
  [[nodiscard]] std::vector<OptimizerSetting> settings() const;
};

using Adadelta = RuleOptimizer<AdadeltaRule>;

}  // namespace hearth
