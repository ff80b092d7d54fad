#include <hearth/runtime/update_counts.hpp>

#include <array>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/weight_scope.hpp>

#include "runtime/client/stream_state.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/ops/expression_op.hpp"
#include "runtime/ops/update_rules.hpp"

namespace hearth {

bool counts_on_device(const Device& device) {
  return !device.endpoint().runs_inline();
}

Tensor make_update_count(const Device& device, std::int64_t count, SourceLoc loc) {
  const WeightScope weights(device);
  return full(device, {}, static_cast<double>(count), DType::f64, loc);
}

void detail::require_count(const Tensor& count, SourceLoc loc) {
  if (!count.is_valid() || count.dtype() != DType::f64 || count.rank() != 0) {
    throw_error(
        Error{.code = ErrorCode::invalid_argument,
              .text = fmt::format(
                  "a count of updates is f64[], got {}",
                  !count.is_valid() ? "an empty tensor" : describe(count.dtype(), count.shape())),
              .location = loc});
  }
}

AdamFactors adam_factors(const Tensor& count,
                         double learning_rate,
                         double beta1,
                         double beta2,
                         DType dtype,
                         SourceLoc loc) {
  detail::require_count(count, loc);
  StreamState& stream = current_stream(count.device().endpoint(), loc);
  const ExpressionRef& expression =
      detail::update_of(stream, detail::UpdateForm::adam_factors, {.parameter = dtype});
  const std::array scalars{learning_rate, beta1, beta2};
  const std::array<Arg, 1> inputs{Arg(count, loc)};
  std::array<Tensor, 2> results;
  detail::submit({.expression = expression,
                  .inputs = inputs,
                  .parameters = detail::ParameterBits(*expression, scalars),
                  .location = loc},
                 results);
  return {.rate = std::move(results[0]), .root = std::move(results[1])};
}

}  // namespace hearth
