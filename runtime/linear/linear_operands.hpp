// Checks of the operands of linear algebra, with errors in the op's name. Private to runtime.
// Threads: any.
#pragma once

#include "runtime/ops/op_parts.hpp"

#include <string_view>

namespace hearth::detail {

/// Throws an error of a call that names its operands.
[[noreturn]] void refuse_linear(ErrorCode code,
                                std::string_view what,
                                std::span<const Arg> operands);
/// Requires an f32 or f64 tensor of at least this rank; `needs` names the operand in the errors.
[[nodiscard]] Shape require_real(const Arg& x, int least_rank, std::string_view needs);
/// Requires matrices [..., n, n] of f32 or f64.
[[nodiscard]] Shape require_square(const Arg& x);

/// Requires a type of floats for the op's made numbers. Errors: DtypeError.
void require_float_type(std::string_view op, DType dtype, SourceLoc loc);

/// Two operands whose leading axes have been broadcast.
struct LinearPair {
  Tensor a;
  Tensor b;
};
/// Broadcasts the axes in front of the last two. Errors: DtypeError for two types; ShapeError.
[[nodiscard]] LinearPair broadcast_batches(const Arg& a, const Tensor& b, const Arg& named_b);

/// The leading axes of a shape, then these two.
[[nodiscard]] Shape with_matrix(const Shape& shape, std::int64_t rows, std::int64_t columns);
/// The leading axes of a shape of matrices, then one axis; or none, for a negative size.
[[nodiscard]] Shape with_row(const Shape& shape, std::int64_t size);

/// Part of the last axis, as matrices [..., rows, columns]: a view. Moves `offset` behind it.
[[nodiscard]] Tensor packed_matrix(const Tensor& packed,
                                   std::int64_t& offset,
                                   std::int64_t rows,
                                   std::int64_t columns,
                                   const At& at);
/// Part of the last axis, as it is: a view. Moves `offset` behind it.
[[nodiscard]] Tensor packed_row(const Tensor& packed,
                                std::int64_t& offset,
                                std::int64_t size,
                                const At& at);

}  // namespace hearth::detail
