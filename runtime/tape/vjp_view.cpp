#include "vjp_table.hpp"

namespace hearth::vjp {

void same_values(const VjpNode& node, Tensor gradient) {
  if (node.kind() == OpKind::reshape) {
    gradient = reshape(node.at(std::move(gradient)), node.shape(0).dims());
  }
  node.give(0, std::move(gradient));
}

void permutation(const VjpNode& node, Tensor gradient) {
  const auto forward = node.attributes<PermuteAttributes>();
  const auto rank = static_cast<std::size_t>(node.shape(0).rank());
  std::array<int, kMaxRank> inverse{};
  for (std::size_t i = 0; i < rank; ++i) {
    inverse[forward.axes[i]] = static_cast<int>(i);
  }
  node.give(0, permute(node.at(std::move(gradient)), std::span<const int>(inverse.data(), rank)));
}

void slice(const VjpNode& node, Tensor gradient) {
  const auto cut = node.attributes<SliceAttributes>();
  const Shape& whole = node.shape(0);
  int cut_axes = 0;
  int cut_axis = 0;
  bool has_steps = false;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    has_steps = has_steps || cut.step[static_cast<std::size_t>(axis)] != 1;
    if (gradient.shape()[axis] != whole[axis]) {
      ++cut_axes;
      cut_axis = axis;
    }
  }
  if (cut_axes == 1 && !has_steps) {
    node.give_part(0, cut_axis, cut, std::move(gradient));
    return;
  }
  const Arg input = node.at(std::move(gradient));
  node.give(0,
            detail::submit({.kind = OpKind::slice_scatter,
                            .location = node.location(),
                            .inputs = {&input, 1},
                            .attributes = node.attribute_bytes()},
                           node.dtype(0),
                           node.shape(0)));
}

void slice_gradient(const VjpNode& node, Tensor gradient) {
  const Arg input = node.at(std::move(gradient));
  node.give(0,
            detail::submit({.kind = OpKind::slice,
                            .location = node.location(),
                            .inputs = {&input, 1},
                            .attributes = node.attribute_bytes()},
                           node.dtype(0),
                           node.shape(0)));
}

void concatenation(const VjpNode& node, Tensor gradient) {
  const int axis = node.attributes<AxisAttributes>().axis;
  std::int64_t first = 0;
  for (int operand = 0; operand < node.operand_count(); ++operand) {
    const std::int64_t next = first + node.shape(operand)[axis];
    if (node.needs(operand)) {
      node.give(operand, hearth::slice(node.at(gradient), axis, {.start = first, .stop = next}));
    }
    first = next;
  }
}

void transfer(const VjpNode& node, Tensor gradient) {
  node.give(0, gradient.to(node.home(), node.location()));
}

}  // namespace hearth::vjp
