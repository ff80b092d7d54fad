#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"
#include "op_promotion.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace hearth {
namespace {

// ---- clamp ----

void check_bound(const Arg& x, const Arg& bound, DType common) {
  constexpr OpKind kKind = OpKind::less;
  const TensorSpec value = detail::spec_of(kKind, x);
  if (!bound.is_scalar()) {
    const std::array inputs{x, bound};
    const TensorSpec limit = detail::spec_of(kKind, bound);
    if (!broadcast(value.shape, limit.shape).has_value()) {
      detail::throw_op_error(ErrorCode::shape_mismatch,
                             kKind,
                             fmt::format("shapes do not broadcast: lhs {}, rhs {}",
                                         describe(value.dtype, value.shape),
                                         describe(limit.dtype, limit.shape)),
                             x.location(),
                             inputs);
    }
    return;
  }
  if (std::isnan(bound.real())) {
    detail::throw_op_error(
        ErrorCode::invalid_argument, kKind, "a bound is NaN", bound.location(), {&x, 1});
  }
  static_cast<void>(
      detail::scalar_of(name(kKind), bound, *detail::TensorAccess::impl(x.tensor()), common));
}

// Replaces values beyond the bound; values on it stay, with their gradient.
Tensor bounded(Tensor value, const Arg& bound, OpKind beyond, SourceLoc loc) {
  const Arg limit = detail::shared_operand(bound);
  Tensor is_beyond =
      beyond == OpKind::less ? less(Arg(value, loc), limit) : greater(Arg(value, loc), limit);
  return where(Arg(std::move(is_beyond), loc), limit, Arg(std::move(value), loc));
}

// ---- triangles ----

// Keeps element (r, c) of each matrix where c - r is not above the diagonal (lower), or not below
// it.
Tensor triangle(const Arg& x, std::int64_t diagonal, bool is_lower) {
  const Shape shape = detail::operand(OpKind::where, x).layout->shape;
  const int rank = shape.rank();
  if (rank < 2) {
    detail::throw_op_error(
        ErrorCode::shape_mismatch,
        OpKind::where,
        fmt::format("needs matrices, got {}", describe(x.tensor().dtype(), shape)),
        x);
  }
  const SourceLoc loc = x.location();
  const Device device = x.tensor().device();
  const std::int64_t rows = shape[rank - 2];
  const std::int64_t columns = shape[rank - 1];
  // Diagonals beyond the corners act alike.
  const auto first = static_cast<double>(std::clamp(diagonal, -rows - 1, columns + 1));
  const Tensor bounds = reshape(
      Arg(arange(device, first, first + static_cast<double>(rows), 1, DType::i64, loc), loc),
      {rows, 1});
  const Tensor places = arange(device, 0, static_cast<double>(columns), 1, DType::i64, loc);
  Tensor keeps = is_lower ? less_equal(Arg(places, loc), Arg(bounds, loc))
                          : greater_equal(Arg(places, loc), Arg(bounds, loc));
  return where(Arg(std::move(keeps), loc), x, Arg(0, loc));
}

}  // namespace

Tensor clamp(Arg x, OptionalArg low, OptionalArg high) {
  return detail::named_as("clamp", [&] {
    static_cast<void>(detail::accepted_operand(OpKind::less, x));
    if (!low.has_value() && !high.has_value()) {
      detail::throw_op_error(
          ErrorCode::invalid_argument, OpKind::less, "needs a bound: low, high or both", x);
    }
    std::vector<Arg> operands{x};
    for (const OptionalArg& bound : {low, high}) {
      if (bound.has_value()) {
        if (!bound->is_scalar()) {
          static_cast<void>(detail::accepted_operand(OpKind::less, *bound));
        }
        operands.push_back(*bound);
      }
    }
    const DType common = detail::common_type(OpKind::less, operands);
    for (std::size_t i = 1; i < operands.size(); ++i) {
      check_bound(x, operands[i], common);
    }
    const SourceLoc loc = x.location();
    Tensor value = cast(x, common);
    if (value.is_tracked()) {  // a NaN stays and takes no gradient, as in PyTorch
      Tensor is_nan = not_equal(Arg(value, loc), Arg(value, loc));
      value = where(Arg(std::move(is_nan), loc), Arg(value.detach(), loc), Arg(value, loc));
    }
    if (low.has_value()) {
      const detail::PromotedArg limit(detail::shared_operand(*low), common);
      value = bounded(std::move(value), limit.arg(), OpKind::less, loc);
    }
    if (high.has_value()) {
      const detail::PromotedArg limit(detail::shared_operand(*high), common);
      value = bounded(std::move(value), limit.arg(), OpKind::greater, loc);
    }
    return value;
  });
}

Tensor masked_fill(Arg x, Arg mask, Arg value) {
  return detail::named_as("masked_fill", [&] {
    constexpr OpKind kKind = OpKind::where;
    static_cast<void>(detail::operand(kKind, x));
    const TensorSpec spec = detail::spec_of(kKind, mask);
    const std::array inputs{x, mask};
    if (spec.dtype != DType::boolean) {
      detail::throw_op_error(
          ErrorCode::dtype_mismatch,
          kKind,
          fmt::format("the mask is not bool: {}", describe(spec.dtype, spec.shape)),
          mask.location(),
          inputs);
    }
    if (!value.is_scalar() && detail::operand(kKind, value).layout->shape.rank() != 0) {
      detail::throw_op_error(ErrorCode::shape_mismatch,
                             kKind,
                             fmt::format("the value is no number and no tensor of rank 0: {}",
                                         describe(value.tensor().dtype(), value.tensor().shape())),
                             value.location(),
                             inputs);
    }
    const TensorImpl& kept = *detail::TensorAccess::impl(x.tensor());
    if (value.is_scalar()) {
      static_cast<void>(detail::scalar_of(name(kKind), value, kept, kept.dtype));
    } else if (value.tensor().dtype() != kept.dtype) {
      const std::array both{x, value};
      detail::throw_op_error(ErrorCode::dtype_mismatch,
                             kKind,
                             fmt::format("element types differ: x {}, value {}",
                                         describe(kept.dtype, kept.layout->shape),
                                         describe(value.tensor().dtype(), value.tensor().shape())),
                             value.location(),
                             both);
    }
    return where(mask, value, x);
  });
}

Tensor tril(Arg x, std::int64_t diagonal) {
  return detail::named_as("tril", [&] { return triangle(x, diagonal, true); });
}
Tensor triu(Arg x, std::int64_t diagonal) {
  return detail::named_as("triu", [&] { return triangle(x, diagonal, false); });
}

}  // namespace hearth
