// The updates of Sgd, Adam and AdamW, as functions over plain ops that are captured on first use.
// Private to runtime. Threads: any; a stream's updates are its thread's.
#pragma once

#include <span>
#include <vector>

#include <hearth/runtime/tensor.hpp>
#include <hearth/streams/kernel/expression.hpp>

namespace hearth {
class StreamState;
}  // namespace hearth

namespace hearth::detail {

/// Forms of updates. Inputs and results are (parameter, gradient, state...) and (parameter,
/// state...); the comment of each form lists the inputs and then the scalar parameters in order.
/// All is computed in the parameter's accumulation_dtype(), which the state has; only the new
/// parameter is rounded to its type.
enum class UpdateForm : std::uint8_t {
  sgd,  ///< (p, g): rate, weight decay
  /// (p, g, m): rate, weight decay, momentum, 1 - dampening, whether it is the first
  sgd_momentum,
  sgd_nesterov,  ///< as sgd_momentum
  /// (p, g, m, v): decay, b1, 1 - b1, b2, 1 - b2, rate / (1 - b1^t), 1 / sqrt(1 - b2^t), epsilon
  adam,
  adamw,  ///< as adam, with 1 - rate * decay in place of the decay
  // For devices that count updates; `n`: the count before this one, f64.
  sgd_momentum_counted,  ///< (p, g, m, n): rate, weight decay, momentum, 1 - dampening
  sgd_nesterov_counted,  ///< as sgd_momentum_counted
  /// (p, g, m, v, rate / (1 - b1^t), 1 / sqrt(1 - b2^t)): decay, b1, 1 - b1, b2, 1 - b2, epsilon
  adam_counted,
  adamw_counted,  ///< as adam_counted, with adamw's decay
  count,          ///< (n): none; independent of the parameters' type
  adam_factors,   ///< (n): rate, b1, b2, all f64; no update, but the two factors of the next one
};

/// The float types of an update's operands.
struct UpdateTypes {
  DType parameter = DType::f32;
  DType gradient = DType::f32;  ///< the parameter's, or its accumulation_dtype()
  /// Whether a bool follows the inputs; where it is false, the results are the replaced inputs.
  bool is_conditional = false;
};

/// Index of the input that a result of an update replaces: the gradient, 1, is not replaced.
[[nodiscard]] constexpr std::size_t replaced_input(std::size_t result) noexcept {
  return result == 0 ? 0 : result + 1;
}
/// Makes an update conditional, within its capture: selects the replaced inputs where the bool is
/// false. Every bit of them is kept, whatever the results would be.
void keep_unless(const Tensor& condition,
                 std::span<const Tensor> inputs,
                 std::vector<Tensor>& results);

/// Captures the update for these types.
[[nodiscard]] ExpressionRef capture_update(UpdateForm form, UpdateTypes types);
/// The update for these types, captured once for each stream.
[[nodiscard]] const ExpressionRef& update_of(StreamState& stream,
                                             UpdateForm form,
                                             UpdateTypes types);

}  // namespace hearth::detail
