#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"

#include <fmt/format.h>

namespace hearth {
namespace {

constexpr OpKind kPartKind = OpKind::slice;

// The range of the one position that a number selects.
Range range_of(std::int64_t place, int axis, const Arg& x) {
  const TensorImpl& impl = detail::operand(kPartKind, x);
  const std::int64_t size = impl.layout->shape[axis];
  const std::int64_t start = place < 0 ? place + size : place;
  if (start < 0 || start >= size) {
    detail::throw_op_error(
        ErrorCode::invalid_argument,
        kPartKind,
        fmt::format(
            "{} is outside axis {} of {}", place, axis, describe(impl.dtype, impl.layout->shape)),
        x);
  }
  return {.start = start, .stop = start + 1};
}

}  // namespace

Tensor Tensor::operator[](const Indices& indices) const {
  return detail::named_as("index", [&] {
    const SourceLoc loc = indices.location();
    const Arg whole(*this, loc);
    const TensorImpl& impl = detail::operand(kPartKind, whole);
    const Shape& from = impl.layout->shape;
    const std::span<const Index> list = indices.list();
    if (list.size() > static_cast<std::size_t>(from.rank())) {
      detail::throw_op_error(
          ErrorCode::shape_mismatch,
          kPartKind,
          fmt::format("{} indices for the axes of {}", list.size(), describe(impl.dtype, from)),
          whole);
    }
    Tensor part(*this);
    Shape kept;
    for (int axis = 0; axis < from.rank(); ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      if (i < list.size()) {
        const Range range =
            list[i].is_range() ? list[i].range() : range_of(list[i].place(), axis, whole);
        part = slice(Arg(std::move(part), loc), axis, range);
      }
      if (i >= list.size() || list[i].is_range()) {
        kept.push_back(part.size(axis, loc), loc);
      }
    }
    return reshape(Arg(std::move(part), loc), kept);
  });
}

}  // namespace hearth
