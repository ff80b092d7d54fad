#include <vector>

#include "runtime/ops/op_parts.hpp"
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

std::vector<int> reduced_axes(const VjpNode& node) {
  const std::uint32_t mask = node.attributes<ReduceAttributes>().axes;
  std::vector<int> axes;
  for (int axis = 0; axis < node.shape(0).rank(); ++axis) {
    if (is_reduced(mask, axis)) {
      axes.push_back(axis);
    }
  }
  return axes;
}

Tensor spread(const VjpNode& node, Tensor gradient) {
  gradient = reshape(node.at(std::move(gradient)), kept_shape(node).dims());
  return expand(node.at(std::move(gradient)), node.shape(0));
}

// The slope of prod as a polynomial, for gradients of gradients. A row of n elements becomes n
// rows; row i has a 1 in place of element i. The result has the shape of the operand.
Tensor product_of_others(const VjpNode& node, const Tensor& x) {
  const std::uint32_t mask = node.attributes<ReduceAttributes>().axes;
  const Shape& shape = node.shape(0);
  std::vector<int> order;
  std::vector<std::int64_t> sizes;
  std::int64_t row_count = 1;
  std::int64_t n = 1;
  for (const bool reduced : {false, true}) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (is_reduced(mask, axis) == reduced) {
        order.push_back(axis);
        sizes.push_back(shape[axis]);
        (reduced ? n : row_count) *= shape[axis];
      }
    }
  }
  std::vector<int> inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<std::size_t>(order[i])] = static_cast<int>(i);
  }
  Tensor rows = reshape(node.at(permute(node.at(x), order)), {row_count, 1, n});
  Tensor factors =
      where(node.at(diagonal_mask(node, x.device(), n)), node.at(1.0), node.at(std::move(rows)));
  Tensor others = prod(node.at(std::move(factors)), {2});
  return permute(node.at(reshape(node.at(std::move(others)), sizes)), inverse);
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
  // An empty mean passes no gradient on, so any factor will do.
  gradient = mul(node.at(std::move(gradient)), node.at(count > 0 ? 1.0 / count : 0.0));
  node.give(0, spread(node, std::move(gradient)));
}

// The largest and smallest value of a row with NaN is NaN: its NaN elements share the gradient.
// Ties are counted in a type that holds their number.
void reduced_extremum(const VjpNode& node, Tensor gradient) {
  const Shape kept = kept_shape(node);
  const DType dtype = gradient.dtype();
  const Tensor x = node.last_operand(0).tensor();
  Tensor chosen = reshape(node.last_output(), kept.dims());
  Tensor is_equal = equal(node.at(x), node.at(std::move(chosen)));
  Tensor is_nan = not_equal(node.at(x), node.at(x));
  const Tensor is_chosen = logical_or(node.at(std::move(is_equal)), node.at(std::move(is_nan)));
  Tensor wide = detail::wide(node.at(reshape(node.at(std::move(gradient)), kept.dims())));
  Tensor marks = hearth::cast(node.at(is_chosen), wide.dtype());
  Tensor ties = sum(node.at(std::move(marks)), reduced_axes(node), {.keep_dims = true});
  Tensor share = div(node.at(std::move(wide)), node.at(std::move(ties)));
  share = hearth::cast(node.at(std::move(share)), dtype);
  node.give(0, where(node.at(is_chosen), node.at(std::move(share)), node.at(0.0)));
}

// The slope at an element is the product of the others. It is 0 if another one is 0, else the
// product of all nonzero ones without the element itself. Computed in f64, where products of
// narrower types rarely overflow.
void product(const VjpNode& node, Tensor gradient) {
  const Shape kept = kept_shape(node);
  const std::vector<int> axes = reduced_axes(node);
  const Tensor x = hearth::cast(node.last_operand(0), DType::f64);
  if (x.is_tracked()) {
    gradient = reshape(node.at(std::move(gradient)), kept.dims());
    Tensor wide = hearth::cast(node.at(std::move(gradient)), DType::f64);
    Tensor given = mul(node.at(std::move(wide)), node.at(product_of_others(node, x)));
    node.give(0, hearth::cast(node.at(std::move(given)), node.dtype(0)));
    return;
  }
  const Tensor is_zero = equal(node.at(x), node.at(0.0));
  const Tensor own_zero = hearth::cast(node.at(is_zero), DType::f64);
  const Tensor zeros = sum(node.at(own_zero), axes, {.keep_dims = true});
  const Tensor factors = where(node.at(is_zero), node.at(1.0), node.at(x));
  Tensor whole = prod(node.at(factors), axes, {.keep_dims = true});
  Tensor others = div(node.at(std::move(whole)), node.at(factors));
  Tensor has_zero_beside = less(node.at(own_zero), node.at(zeros));
  gradient = reshape(node.at(std::move(gradient)), kept.dims());
  Tensor wide = hearth::cast(node.at(std::move(gradient)), DType::f64);
  Tensor given = mul(node.at(std::move(wide)), node.at(std::move(others)));
  given = where(node.at(std::move(has_zero_beside)), node.at(0.0), node.at(std::move(given)));
  node.give(0, hearth::cast(node.at(std::move(given)), node.dtype(0)));
}

}  // namespace hearth::vjp
