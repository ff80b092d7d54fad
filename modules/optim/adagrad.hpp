// Adagrad: steps divided by the root of the sum of squared gradients.
// Plain data. Threads: values; the optimizer as RuleOptimizer.
#pragma once

#include <hearth/modules/rule_optimizer.hpp>

#include <string>
#include <vector>

namespace hearth {

/// Adagrad, with PyTorch's formula: g += weight_decay·p; s += g²;
/// p -= learning_rate / (1 + (t - 1)·rate_decay) · g / (sqrt(s) + epsilon). Here t numbers the
/// parameter's updates, and s begins with `initial_sum`.
///
/// Paper: Duchi, Hazan, Singer, Adaptive Subgradient Methods, JMLR 12 (2011).
struct AdagradRule {
  double learning_rate = 1e-2;  ///< Learning rate; set_learning_rate() changes it.
  double rate_decay = 0;        ///< Decay of the learning rate, by the number of updates.
  double weight_decay = 0;      ///< Adds weight_decay·p to the gradient.
  double initial_sum = 0;       ///< First value of the sum. The stored state is without it.
  double epsilon = 1e-10;       ///< Added to the root in the denominator.
  std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.

  static std::string name() { return "Adagrad"; }
  [[nodiscard]] UpdateFormula formula() const;
  [[nodiscard]] std::vector<OptimizerSetting> settings() const;
};

using Adagrad = RuleOptimizer<AdagradRule>;

}  // namespace hearth
