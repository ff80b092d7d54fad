// The two moments that optimizers of Adam's family keep. Private to modules. Threads: any.
#pragma once

#include <hearth/modules/update_formula.hpp>

#include <hearth/runtime/ops.hpp>

#include <string>
#include <vector>

namespace hearth::detail {

/// Settings that Adam's family shares.
struct MomentSettings {
  double beta1 = 0;
  double beta2 = 0;
  double epsilon = 0;
  bool decoupled = true;  ///< Whether weight decay scales the parameter, not the gradient.
};

/// Slots of the moments.
[[nodiscard]] std::vector<std::string> moment_slots();
/// Bounds of the settings, which their structs have under equal names.
[[nodiscard]] std::vector<OptimizerSetting> moment_settings(const MomentSettings& settings);

/// The values before the step's direction is known.
struct Moments {
  Tensor parameter;  ///< With decoupled decay.
  Tensor gradient;   ///< With coupled decay.
  Tensor mean;
  Tensor variance;
};
/// Applies the gradient to both moments. Elementwise.
[[nodiscard]] Moments moments_of(const UpdateOperands& operands, const MomentSettings& settings);
/// 1 / (1 - β1^t) and 1 / sqrt(1 - β2^t).
[[nodiscard]] std::vector<Tensor> moment_factors(const Tensor& update_number,
                                                 const MomentSettings& settings);

/// AdamW's formula: its direction is mean·factors[0] / (sqrt(variance)·factors[1] + epsilon).
[[nodiscard]] UpdateFormula adam_formula(const MomentSettings& settings);
/// That direction, of moments that have the gradient.
[[nodiscard]] Tensor adam_direction(const Moments& moments,
                                    const std::vector<Tensor>& factors,
                                    const MomentSettings& settings);

}  // namespace hearth::detail
