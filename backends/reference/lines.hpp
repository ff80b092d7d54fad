// The lines of a dense tensor along one axis: start of each line and distance between its elements.
// Private to backends/reference. Pure functions. Threads: any.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/shape.hpp>

#include "elements.hpp"

namespace hearth::reference {

struct Line {
  std::int64_t first = 0;
  std::int64_t step = 0;
  std::int64_t length = 0;
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const noexcept { return first + i * step; }
};

/// Calls fn(line) for every line along `axis`, in row-major order of the other axes.
template <class Fn>
void visit_lines(const Shape& shape, int axis, const Fn& fn) {
  const Strides strides = contiguous_strides(shape);
  Shape others = shape;
  others.set(axis, 1);
  visit_offsets(others, strides, [&](std::int64_t first) {
    fn(Line{
        .first = first, .step = strides[static_cast<std::size_t>(axis)], .length = shape[axis]});
  });
}

}  // namespace hearth::reference
