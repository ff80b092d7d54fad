// A tensor as lines along one of its axes, for scans and sorts. Private to backends/gpu. A value.
// Threads: any.
#pragma once

#include <algorithm>
#include <cstdint>

#include "merged_space.hpp"

namespace hearth::gpu {

struct AxisLines {
  /// `strides` are those of `view` over `shape`, which has elements.
  AxisLines(const TensorView& view, const Shape& shape, const Strides& strides, int axis) noexcept
      : space(without(shape, axis), {strides}), length(shape[axis]) {
    step = length > 1 ? strides[static_cast<std::size_t>(axis)] : 0;
    const std::int64_t all = step * (length - 1);
    start = std::max<std::int64_t>(-all, 0);
    reach = space.reach(0) + (all < 0 ? -all : all);
    address =
        lowest_address(view, space.reach_down(0) + start, static_cast<int>(size_bytes(view.dtype)));
    for (int i = axis + 1; i < shape.rank(); ++i) {
      inner *= shape[i];
    }
  }
  AxisLines(const TensorView& view, int axis) noexcept
      : AxisLines(view, view.shape(), view.strides(), axis) {}

  [[nodiscard]] std::int64_t count() const noexcept { return space.element_count; }

  MergedSpace space;       ///< The lines, in row-major order.
  std::int64_t length;     ///< Elements of a line.
  std::int64_t step = 0;   ///< Stride along a line.
  std::int64_t start = 0;  ///< Offset of a line's first element from the place that walk() returns.
  std::int64_t inner = 1;  ///< Lines that lie between two elements of a contiguous tensor's line.
  std::int64_t reach = 0;  ///< Distance from the lowest element to the highest.
  std::uint64_t address = 0;  ///< Address of the lowest element.

 private:
  static Shape without(Shape shape, int axis) noexcept {
    if (shape.rank() > 0) {
      shape.set(axis, 1);
    }
    return shape;
  }
};

}  // namespace hearth::gpu
