#include "vjp_table.hpp"

namespace hearth::vjp {
namespace {

bool is_reduced(std::uint32_t axes, int axis) noexcept {
  return (axes >> static_cast<unsigned>(axis) & 1U) != 0;
}

// The operand's shape with 1 on the reduced axes, which broadcasts against the operand.
Shape kept_shape(const VjpNode& node) {
  const std::uint32_t axes = node.attributes<ReduceAttributes>().axes;
  Shape shape = node.shape(0);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (is_reduced(axes, axis)) {
      shape.set(axis, 1);
    }
  }
  return shape;
}

Tensor spread(const VjpNode& node, Tensor gradient) {
  gradient = reshape(node.at(std::move(gradient)), kept_shape(node).dims());
  return expand(node.at(std::move(gradient)), node.shape(0));
}

}  // namespace

void summation(const VjpNode& node, Tensor gradient) {
  node.give(0, spread(node, std::move(gradient)));
}

void average(const VjpNode& node, Tensor gradient) {
  const std::uint32_t axes = node.attributes<ReduceAttributes>().axes;
  double count = 1;
  for (int axis = 0; axis < node.shape(0).rank(); ++axis) {
    count *= is_reduced(axes, axis) ? static_cast<double>(node.shape(0)[axis]) : 1.0;
  }
  // An empty mean has no operands to give anything to; any factor will do.
  gradient = mul(node.at(std::move(gradient)), node.at(count > 0 ? 1.0 / count : 0.0));
  node.give(0, spread(node, std::move(gradient)));
}

void maximum(const VjpNode& node, Tensor gradient) {
  const std::uint32_t mask = node.attributes<ReduceAttributes>().axes;
  std::array<int, kMaxRank> axes{};
  std::size_t count = 0;
  for (int axis = 0; axis < node.shape(0).rank(); ++axis) {
    if (is_reduced(mask, axis)) {
      axes[count++] = axis;
    }
  }
  const Shape kept = kept_shape(node);
  Tensor largest = reshape(node.last_output(), kept.dims());
  Tensor is_largest = equal(node.last_operand(0), node.at(std::move(largest)));
  Tensor mask_values = hearth::cast(node.at(std::move(is_largest)), gradient.dtype());
  Tensor ties = sum(node.at(mask_values), std::span<const int>(axes.data(), count), true);
  gradient = reshape(node.at(std::move(gradient)), kept.dims());
  Tensor share = div(node.at(std::move(gradient)), node.at(std::move(ties)));
  node.give(0, mul(node.at(std::move(mask_values)), node.at(std::move(share))));
}

}  // namespace hearth::vjp
