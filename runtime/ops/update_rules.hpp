// The updates of Sgd, Adam and AdamW, as functions over plain ops that are captured when they are
// first needed. Private to runtime. Threads: any; pure functions.
#pragma once

#include <hearth/streams/kernel/expression.hpp>

namespace hearth::detail {

/// Inputs and results are (parameter, gradient, state...) and (parameter, state...); the parameters
/// stand in the order in which each is listed.
enum class UpdateForm : std::uint8_t {
  sgd,           ///< (p, g): rate, weight decay
  sgd_momentum,  ///< (p, g, m): rate, weight decay, momentum, 1 - dampening, whether it is the
                 ///< first
  sgd_nesterov,  ///< the same
  adam,   ///< (p, g, m, v): decay, b1, 1 - b1, b2, 1 - b2, rate / (1 - b1^t), 1 / sqrt(1 - b2^t),
          ///< epsilon
  adamw,  ///< the same, with 1 - rate * decay in place of the decay
};

/// Captures the update for parameters of this float type.
[[nodiscard]] ExpressionRef capture_update(UpdateForm form, DType dtype);

}  // namespace hearth::detail
