// Lion: steps of one size, in the direction of a momentum's sign.
// Plain data. Threads: values; the optimizer as RuleOptimizer.
#pragma once

#include <hearth/modules/rule_optimizer.hpp>

#include <string>
#include <vector>

namespace hearth {

/// Lion: p -= learning_rate·(sign(β1·m + (1 - β1)·g) + weight_decay·p); m = β2·m + (1 - β2)·g.
///
/// Paper: Chen et al., Symbolic Discovery of Optimization Algorithms, arXiv:2302.06675,
/// algorithm 2.
struct LionRule {
  double learning_rate = 1e-4;  ///< Learning rate; set_learning_rate() changes it.
  double beta1 = 0.9;           ///< Share of the momentum in a step's direction.
  double beta2 = 0.99;          ///< Decay of the momentum.
  double weight_decay = 0;      ///< Each step scales p by 1 - learning_rate·weight_decay.
  std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.

  static std::string name() { return "Lion"; }
  [[nodiscard]] UpdateFormula formula() const;
  [[nodiscard]] std::vector<OptimizerSetting> settings() const;
};

using Lion = RuleOptimizer<LionRule>;

}  // namespace hearth
