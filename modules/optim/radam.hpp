// RAdam: Adam whose first steps do not divide by an uncertain variance.
// Plain data. Threads: values; the optimizer as RuleOptimizer.
#pragma once

#include <hearth/modules/rule_optimizer.hpp>

#include <string>
#include <vector>

namespace hearth {

/// Rectified Adam, with PyTorch's formula: m and v as Adam; ρ∞ = 2/(1 - β2) - 1;
/// ρ = ρ∞ - 2·t·β2^t/(1 - β2^t), where t numbers the parameter's updates.
///
/// If ρ > 5, p -= learning_rate · m/(1 - β1^t) · r · sqrt(1 - β2^t)/(sqrt(v) + epsilon), where
/// r² = (ρ - 4)·(ρ - 2)·ρ∞ / ((ρ∞ - 4)·(ρ∞ - 2)·ρ). Else p -= learning_rate · m/(1 - β1^t).
///
/// Paper: Liu et al., On the Variance of the Adaptive Learning Rate and Beyond, arXiv:1908.03265,
/// algorithm 2.
struct RAdamRule {
  double learning_rate = 1e-3;  ///< Learning rate; set_learning_rate() changes it.
  double beta1 = 0.9;           ///< Decay of the mean of gradients.
  double beta2 = 0.999;         ///< Decay of the mean of squared gradients.
  double epsilon = 1e-8;        ///< Added to the root in the denominator.
  /// Adds weight_decay·p to the gradient, or scales p if `decoupled`.
  double weight_decay = 0;
  bool decoupled = false;  ///< Whether weight decay scales p directly, as in AdamW.
  std::vector<ParameterGroup> groups = {};  ///< Different settings for some parameters.

  static std::string name() { return "RAdam"; }
  [[nodiscard]] UpdateFormula formula() const;
  [[nodiscard]] std::vector<OptimizerSetting> settings() const;
};

using RAdam = RuleOptimizer<RAdamRule>;

}  // namespace hearth
