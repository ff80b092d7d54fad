#include "logit_rows.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/model_tensor.hpp>
#include <hearth/runtime/ops.hpp>

#include <fmt/format.h>

#include <string>

namespace hearth::detail {

LogitRows read_logits(const Tensor& logits, std::size_t rows, std::string_view op, SourceLoc loc) {
  require_tensor(op, "logits", logits, loc);
  const auto refuse = [&](ErrorCode code, const char* rule) {
    throw_error(Error{
        .code = code,
        .text = fmt::format("{}: {}, got {}", op, rule, describe(logits.dtype(), logits.shape())),
        .op = std::string(op),
        .location = loc});
  };
  if (!is_float(logits.dtype())) {
    refuse(ErrorCode::dtype_mismatch, "logits are floats");
  }
  const Shape& shape = logits.shape();
  const bool is_row =
      rows == 1 && shape.rank() > 0 && shape.element_count() == shape[shape.rank() - 1];
  const bool are_rows = shape.rank() == 2 && shape[0] == static_cast<std::int64_t>(rows);
  if (!is_row && !are_rows) {
    throw_error(
        Error{.code = ErrorCode::shape_mismatch,
              .text = fmt::format(
                  "{}: logits are [{}, tokens], got {}", op, rows, describe(logits.dtype(), shape)),
              .op = std::string(op),
              .location = loc});
  }
  return {.values = logits.to(DType::f32, loc).to_vector<float>(),
          .token_count = static_cast<std::size_t>(shape[shape.rank() - 1])};
}

}  // namespace hearth::detail
