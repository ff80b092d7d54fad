// RmsProp: steps divided by the root of a mean of squared gradients.
// Plain data. Threads: values; the optimizer as RuleOptimizer.
#pragma once

#include <hearth/modules/rule_optimizer.hpp>

#include <string>
#include <vector>

namespace hearth {

/// RMSprop, with PyTorch's formula: g += weight_decay·p; v = alpha·v + (1 - alpha)·g²;
/// d = g / (sqrt(v) + epsilon); with momentum b = momentum·b + d and d = b;
/// p -= learning_rate·d.
///
/// If `centered`, v - m² takes the place of v under the root, where m = alpha·m + (1 - alpha)·g.
/// Rounding may make it negative; then it counts as 0.
///
/// Paper: Tieleman, Hinton, Lecture 6.5 of Neural Networks for Machine Learning, 2012; centered:
/// Graves, Generating Sequences With Recurrent Neural Networks, arXiv:1308.0850.
struct RmsPropRule {
  double learning_rate = 1e-2;              ///< Learning rate; set_learning_rate() changes it.
  double alpha = 0.99;                      ///< Decay of the mean of squared gradients.
  double epsilon = 1e-8;                    ///< Added to the root in the denominator.
  double weight_decay = 0;                  ///< Adds weight_decay·p to the gradient.
  double momentum = 0;                      ///< Decay of the velocity; 0 disables momentum.
  bool centered = false;                    ///< Whether to divide by an estimate of the deviation.
  std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.

  static std::string name() { return "RmsProp"; }
  [[nodiscard]] UpdateFormula formula() const;
  [[nodiscard]] std::vector<OptimizerSetting> settings() const;
};

using RmsProp = RuleOptimizer<RmsPropRule>;

}  // namespace hearth
