// Elements in another order along an axis: flip and roll.
#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace hearth {
namespace {

using detail::At;

Tensor rolled(Tensor x, int axis, std::int64_t shift, const At& at) {
  const std::int64_t size = x.shape()[axis];
  const std::int64_t places = size == 0 ? 0 : ((shift % size) + size) % size;
  if (places == 0) {
    return x;
  }
  return concat({slice(at(x), axis, {.start = -places}), slice(at(x), axis, {.stop = -places})},
                axis,
                at.location());
}

}  // namespace

Tensor flip(Arg x, Axes axes) {
  return detail::named_as("flip", [&] {
    constexpr OpKind kKind = OpKind::slice;
    const int rank = detail::operand(kKind, x).layout->shape.rank();
    std::array<bool, kMaxRank> is_flipped{};
    for (const int given : axes.list()) {
      const int axis = detail::checked(normalize_axis("flip", given, rank), kKind, x);
      if (std::exchange(is_flipped[static_cast<std::size_t>(axis)], true)) {
        detail::throw_op_error(
            ErrorCode::invalid_argument, kKind, fmt::format("axis {} is named twice", axis), x);
      }
    }
    const At at(x.location());
    Tensor result = detail::take(x);
    for (int axis = 0; axis < rank; ++axis) {
      if (axes.list().empty() || is_flipped[static_cast<std::size_t>(axis)]) {
        result = slice(at(std::move(result)), axis, {.step = -1});
      }
    }
    return result;
  });
}

Tensor roll(Arg x, std::int64_t shift) {
  return detail::named_as("roll", [&] {
    const Shape shape = detail::operand(OpKind::concat, x).layout->shape;
    const At at(x.location());
    Tensor row = rolled(reshape(x, {std::int64_t{-1}}), 0, shift, at);
    return reshape(at(std::move(row)), shape.dims());
  });
}

Tensor roll(Arg x, std::int64_t shift, int axis) {
  return roll(x, {shift}, Axes(axis));
}

Tensor roll(Arg x, std::span<const std::int64_t> shifts, Axes axes) {
  return detail::named_as("roll", [&] {
    constexpr OpKind kKind = OpKind::concat;
    const int rank = detail::operand(kKind, x).layout->shape.rank();
    const std::span<const int> list = axes.list();
    if (shifts.size() != list.size()) {
      detail::throw_op_error(
          ErrorCode::invalid_argument,
          kKind,
          fmt::format(
              "{} shifts do not fit {} axes: give one for each", shifts.size(), list.size()),
          x);
    }
    for (const int axis : list) {
      static_cast<void>(detail::checked(normalize_axis("roll", axis, rank), kKind, x));
    }
    const At at(x.location());
    Tensor result = detail::take(x);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const int axis = list[i] < 0 ? list[i] + rank : list[i];
      result = rolled(std::move(result), axis, shifts[i], at);
    }
    return result;
  });
}
Tensor roll(Arg x, std::initializer_list<std::int64_t> shifts, Axes axes) {
  return roll(x, std::span<const std::int64_t>(shifts.begin(), shifts.size()), std::move(axes));
}

}  // namespace hearth
