// The updates of Sgd, Adam and AdamW, as functions over plain ops that are captured when they are
// first needed. Private to runtime. Threads: any; a stream's are its thread's.
#pragma once

#include <hearth/streams/kernel/expression.hpp>

namespace hearth {
class StreamState;
}  // namespace hearth

namespace hearth::detail {

/// Inputs and results are (parameter, gradient, state...) and (parameter, state...); the parameters
/// stand in the order in which each is listed. All is computed in the parameter's
/// accumulation_dtype(), which the state has; the new parameter alone is rounded to its type.
enum class UpdateForm : std::uint8_t {
  sgd,           ///< (p, g): rate, weight decay
  sgd_momentum,  ///< (p, g, m): rate, weight decay, momentum, 1 - dampening, whether it is the
                 ///< first
  sgd_nesterov,  ///< the same
  adam,   ///< (p, g, m, v): decay, b1, 1 - b1, b2, 1 - b2, rate / (1 - b1^t), 1 / sqrt(1 - b2^t),
          ///< epsilon
  adamw,  ///< the same, with 1 - rate * decay in place of the decay
  // Where the device counts the updates; `n`: the count before this one, f64.
  sgd_momentum_counted,  ///< (p, g, m, n): rate, weight decay, momentum, 1 - dampening
  sgd_nesterov_counted,  ///< the same
  adam_counted,          ///< (p, g, m, v, rate / (1 - b1^t), 1 / sqrt(1 - b2^t)): decay, b1,
                         ///< 1 - b1, b2, 1 - b2, epsilon
  adamw_counted,         ///< the same, as adamw
  count,                 ///< (n): none. The type of parameters does not matter.
  adam_factors,  ///< (n): rate, b1, b2, all f64. No update: it makes the two factors of the next.
};

/// The float types of what an update takes.
struct UpdateTypes {
  DType parameter = DType::f32;
  DType gradient = DType::f32;  ///< The parameter's, or its accumulation_dtype().
};

/// Captures the update for these types.
[[nodiscard]] ExpressionRef capture_update(UpdateForm form, UpdateTypes types);
/// The same, captured once for each stream.
[[nodiscard]] const ExpressionRef& update_of(StreamState& stream,
                                             UpdateForm form,
                                             UpdateTypes types);

}  // namespace hearth::detail
