#include <utility>

#include "runtime/ops/op_parts.hpp"
#include "vjp_table.hpp"

namespace hearth {

Tensor places_along(const VjpNode& node, const Device& device, const Shape& shape, int axis) {
  Shape line = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    line.set(i, i == axis ? shape[i] : 1);
  }
  Tensor places =
      arange(device, 0, static_cast<double>(shape[axis]), 1, DType::i64, node.location());
  return expand(node.at(reshape(node.at(std::move(places)), line)), shape);
}

Tensor diagonal_mask(const VjpNode& node, const Device& device, std::int64_t n) {
  const Tensor line = places_along(node, device, Shape{n}, 0);
  return equal(node.at(reshape(node.at(line), {n, 1})), node.at(line));
}

namespace vjp {
namespace {

enum class Direction : std::uint8_t { forward, backward };  // of the op, or against it

Tensor scanned(const VjpNode& node, OpKind kind, Tensor x, Direction direction) {
  auto attributes = node.attributes<ScanAttributes>();
  attributes.reverse =
      direction == Direction::forward ? attributes.reverse : 1 - attributes.reverse;
  const DType dtype = x.dtype();
  const Shape shape = x.shape();
  const Arg input = node.at(std::move(x));
  return detail::submit({.kind = kind,
                         .location = node.location(),
                         .inputs = {&input, 1},
                         .attributes = detail::bytes_of(attributes)},
                        dtype,
                        shape);
}

// The gradient of cumprod as a polynomial, for gradients of gradients. It takes running products of
// n rows; row k has a 1 in place of element k. Result i depends on the elements up to i.
Tensor polynomial_slope(const VjpNode& node, const Tensor& x, Tensor gradient) {
  const auto given = node.attributes<ScanAttributes>();
  const int last = node.shape(0).rank() - 1;
  const auto as_rows = [&](Tensor values) {
    const Shape shape = values.shape();
    const std::int64_t n = shape[given.axis];
    const std::int64_t row_count = n == 0 ? 0 : shape.element_count() / n;
    Tensor moved = transpose(node.at(std::move(values)), given.axis, last);
    return reshape(node.at(std::move(moved)), {row_count, 1, n});
  };
  const std::int64_t n = x.shape()[given.axis];
  Tensor factors =
      where(node.at(diagonal_mask(node, x.device(), n)), node.at(1.0), node.at(as_rows(x)));
  const Shape square = factors.shape();
  const ScanAttributes along{.axis = 2, .reverse = given.reverse};
  const DType dtype = factors.dtype();
  const Arg input = node.at(std::move(factors));
  Tensor products = detail::submit({.kind = OpKind::cumprod,
                                    .location = node.location(),
                                    .inputs = {&input, 1},
                                    .attributes = detail::bytes_of(along)},
                                   dtype,
                                   square);
  const Tensor line = places_along(node, x.device(), Shape{n}, 0);
  const Tensor column = reshape(node.at(line), {n, 1});
  Tensor depends = given.reverse != 0 ? less_equal(node.at(line), node.at(column))
                                      : greater_equal(node.at(line), node.at(column));
  Tensor terms = mul(node.at(as_rows(std::move(gradient))), node.at(std::move(products)));
  terms = where(node.at(std::move(depends)), node.at(std::move(terms)), node.at(0.0));
  Shape moved = node.shape(0);
  moved.set(given.axis, moved[last]);
  moved.set(last, n);
  Tensor sums = reshape(node.at(sum(node.at(std::move(terms)), {2})), moved);
  return transpose(node.at(std::move(sums)), given.axis, last);
}

}  // namespace

void running_sum(const VjpNode& node, Tensor gradient) {
  node.give(0, scanned(node, OpKind::cumsum, std::move(gradient), Direction::backward));
}

// The slope of result i at element k is the product of the elements up to i without k. Before the
// first 0 that is the result divided by the element; at the first 0 it is the running product with
// a 1 in its place; behind it, the slope is 0.
void running_product(const VjpNode& node, Tensor gradient) {
  const DType dtype = node.dtype(0);
  const Tensor x = detail::wide(node.last_operand(0));
  if (x.is_tracked()) {
    Tensor slope = polynomial_slope(node, x, detail::wide(node.at(std::move(gradient))));
    node.give(0, hearth::cast(node.at(std::move(slope)), dtype));
    return;
  }
  const Tensor is_zero = equal(node.at(x), node.at(0.0));
  Tensor marks = hearth::cast(node.at(is_zero), DType::i64);
  const Tensor zeros = scanned(node, OpKind::cumsum, std::move(marks), Direction::forward);
  const Tensor is_before = equal(node.at(zeros), Arg(0, node.location()));
  Tensor is_one = equal(node.at(zeros), Arg(1, node.location()));
  const Tensor is_first = logical_and(node.at(is_zero), node.at(std::move(is_one)));
  Tensor factors = where(node.at(is_first), node.at(1.0), node.at(x));
  Tensor products = scanned(node, OpKind::cumprod, std::move(factors), Direction::forward);
  const Tensor terms =
      mul(node.at(detail::wide(node.at(std::move(gradient)))), node.at(std::move(products)));
  const auto sum_of = [&](Tensor chosen) {
    return scanned(node, OpKind::cumsum, std::move(chosen), Direction::backward);
  };
  Tensor before = sum_of(where(node.at(is_before), node.at(terms), node.at(0.0)));
  before = div(node.at(std::move(before)), node.at(x));
  Tensor behind = sum_of(where(node.at(is_before), node.at(0.0), node.at(terms)));
  behind = where(node.at(is_first), node.at(std::move(behind)), node.at(0.0));
  Tensor given = where(node.at(is_before), node.at(std::move(before)), node.at(std::move(behind)));
  node.give(0, hearth::cast(node.at(std::move(given)), dtype));
}

// The place of the last element so far that equals the result: running maxima of places, or minima
// from the end.
void running_extremum(const VjpNode& node, Tensor gradient) {
  const auto given = node.attributes<ScanAttributes>();
  const Shape shape = node.shape(0);
  const Tensor x = node.last_operand(0).tensor();
  Tensor is_equal = equal(node.at(x), node.last_output());
  Tensor is_nan = not_equal(node.at(x), node.at(x));
  Tensor is_chosen = logical_or(node.at(std::move(is_equal)), node.at(std::move(is_nan)));
  const bool is_reverse = given.reverse != 0;
  const Arg nowhere(is_reverse ? shape[given.axis] : std::int64_t{-1}, node.location());
  Tensor places = places_along(node, gradient.device(), shape, given.axis);
  places = where(node.at(std::move(is_chosen)), node.at(std::move(places)), nowhere);
  places = scanned(
      node, is_reverse ? OpKind::cummin : OpKind::cummax, std::move(places), Direction::forward);
  const AxisAttributes attributes{.axis = given.axis, .keep_dims = 0};
  const std::array inputs{node.at(std::move(gradient)), node.at(std::move(places))};
  node.give(0,
            detail::submit({.kind = OpKind::scatter_add,
                            .location = node.location(),
                            .inputs = inputs,
                            .attributes = detail::bytes_of(attributes)},
                           node.dtype(0),
                           shape));
}

}  // namespace vjp
}  // namespace hearth
