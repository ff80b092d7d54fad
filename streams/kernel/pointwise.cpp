#include <hearth/streams/kernel/pointwise.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>

namespace hearth {
namespace {

bool is_plain_axis(const std::vector<AffineIndex>& map) noexcept {
  return map.size() == 1 && map[0].is_plain() && map[0].terms[0].axis == 0;
}

std::vector<AffineIndex> broadcast_map(const Shape& from, const Shape& to) {
  std::vector<AffineIndex> map;
  const int behind = to.rank() - from.rank();
  for (int axis = 0; axis < from.rank(); ++axis) {
    AffineIndex index;
    if (from[axis] == to[axis + behind]) {  // otherwise it has size 1 and repeats
      index.terms.push_back({.axis = axis + behind});
    }
    map.push_back(std::move(index));
  }
  return map;
}

}  // namespace

bool is_pointwise(const KernelIR& kernel) noexcept {
  const auto has_plain_map = [](const auto& operand) { return is_plain_axis(operand.map); };
  return kernel.axis_count() == 1 && kernel.folded == 0 &&
         std::ranges::all_of(kernel.inputs, has_plain_map) &&
         std::ranges::all_of(kernel.outputs, has_plain_map);
}

KernelIR spread(const KernelIR& pointwise, std::span<const Shape> inputs, const Shape& output) {
  HEARTH_ASSERT(is_pointwise(pointwise) && inputs.size() == pointwise.inputs.size(),
                "spread takes a pointwise kernel, and a shape for each of its inputs");
  KernelIR kernel = pointwise;
  kernel.extents.clear();
  for (int axis = 0; axis < output.rank(); ++axis) {
    kernel.extents.push_back(axis);
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    kernel.inputs[i].map = broadcast_map(inputs[i], output);
  }
  for (KernelOutput& each : kernel.outputs) {
    each.map = broadcast_map(output, output);
  }
  return kernel;
}

bool is_row_kernel(const KernelIR& kernel) noexcept {
  const auto has_row_map = [](const auto& operand) {
    const std::vector<AffineIndex>& map = operand.map;
    const auto is_axis = [&](std::size_t i) {
      return map[i].is_plain() && map[i].terms[0].axis == static_cast<int>(i);
    };
    return (map.size() == 1 || map.size() == 2) && is_axis(0) && is_axis(map.size() - 1);
  };
  return kernel.axis_count() == 2 && kernel.folded == 0b10U &&
         std::ranges::all_of(kernel.inputs, has_row_map) &&
         std::ranges::all_of(kernel.outputs, has_row_map);
}

Result<Shape> row_space(const KernelIR& rows, std::span<const Shape> inputs, int row_axes) {
  Shape space;
  bool has_any = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_of_rows(rows.inputs[i].map)) {
      HEARTH_TRY(space, broadcast(space, inputs[i]));
      has_any = true;
    }
  }
  if (!has_any || row_axes < 1 || row_axes > space.rank()) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = fmt::format("kernel: rows of the last {} axes of {}",
                                     row_axes,
                                     has_any ? space.to_string() : "no input")};
  }
  return space;
}

KernelIR spread_rows(const KernelIR& rows,
                     std::span<const Shape> inputs,
                     const Shape& space,
                     int row_axes) {
  HEARTH_ASSERT(is_row_kernel(rows) && inputs.size() == rows.inputs.size(),
                "spread_rows takes a row kernel, and a shape for each of its inputs");
  KernelIR kernel = rows;
  kernel.extents.clear();
  kernel.folded = 0;
  Shape kept;
  for (int axis = 0; axis < space.rank(); ++axis) {
    kernel.extents.push_back(axis);
    if (axis < space.rank() - row_axes) {
      kept.push_back(space[axis]);
    } else {
      kernel.folded |= 1U << static_cast<unsigned>(axis);
    }
  }
  const auto along_kept = [&](const Shape& shape) {
    std::vector<AffineIndex> map(static_cast<std::size_t>(shape.rank()));
    for (int axis = 0; axis < kept.rank(); ++axis) {
      if (shape[axis] != 1) {
        map[static_cast<std::size_t>(axis)].terms.push_back({.axis = axis});
      }
    }
    return map;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    kernel.inputs[i].map =
        is_of_rows(rows.inputs[i].map) ? along_kept(inputs[i]) : broadcast_map(inputs[i], space);
  }
  for (KernelOutput& each : kernel.outputs) {
    each.map = is_of_rows(each.map) ? broadcast_map(kept, kept) : broadcast_map(space, space);
  }
  return kernel;
}

}  // namespace hearth
