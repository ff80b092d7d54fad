#include <hearth/streams/kernel/pointwise.hpp>

#include <algorithm>

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
    if (from[axis] == to[axis + behind]) {  // else it has size 1 and repeats
      index.terms.push_back({.axis = axis + behind});
    }
    map.push_back(std::move(index));
  }
  return map;
}

}  // namespace

bool is_pointwise(const KernelIR& kernel) noexcept {
  const auto has_plain_map = [](const auto& operand) { return is_plain_axis(operand.map); };
  return kernel.axis_count() == 1 && !kernel.reduce.has_value() &&
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

}  // namespace hearth
