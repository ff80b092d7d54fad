#include "error_cells.hpp"

#include <fmt/format.h>

#include <hearth/streams/op_table.hpp>

namespace hearth::gpu {

// The first thread to set the code writes the other words; all others write nothing.
std::string_view glsl_fail() noexcept {
  return R"(
BUFFER_OF(ErrorCell, 8) {
  uint code;
  uint kind;
  int64_t a;
  int64_t b;
  int64_t c;
};
FN void fail(uint64_t cell, uint code, int64_t a, int64_t b, int64_t c) {
  if (cell != 0ul && atomicCompSwap(AT(ErrorCell, cell).code, 0u, code) == 0u) {
    AT(ErrorCell, cell).a = a;
    AT(ErrorCell, cell).b = b;
    AT(ErrorCell, cell).c = c;
  }
}
)";
}

Error error_of(const ErrorCellWords& words, std::string_view device) {
  const auto kind = static_cast<OpKind>(words.kind);
  const std::string_view op = name(kind);
  Error error{.code = ErrorCode::kernel_failed,
              .text = {},
              .op = std::string(op),
              .device = std::string(device)};
  switch (static_cast<Failing>(words.code)) {
    case Failing::class_outside:
      error.code = ErrorCode::out_of_range;
      error.text = fmt::format("{}: the target of row {} is {}, but there are {} classes",
                               op,
                               words.b,
                               words.a,
                               words.c);
      break;
    case Failing::index_outside:
      error.code = ErrorCode::out_of_range;
      error.text = fmt::format(
          "{}: index {} is {}, but the axis has {} elements", op, words.b, words.a, words.c);
      break;
    case Failing::division_by_zero:
      error.text = fmt::format("{}: division by zero at element {}", op, words.b);
      break;
    case Failing::zero_to_negative:
      error.text = fmt::format("{}: zero to a negative power at element {}", op, words.b);
      break;
    default:
      error.code = ErrorCode::internal;
      error.text = fmt::format("{}: a kernel left the unknown failure {}", op, words.code);
  }
  return error;
}

}  // namespace hearth::gpu
