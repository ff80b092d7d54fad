#include <utility>

#include "vjp_table.hpp"

namespace hearth::vjp {
namespace {

// An op's operands in its gradient: x and the updates have the same rules, on either side of the
// index.
constexpr int kX = 0;
constexpr int kIndex = 1;
constexpr int kUpdates = 2;

Tensor scattered(const VjpNode& node, const Arg& x, const Arg& updates, ScatterMode mode) {
  return scatter(
      x, node.attributes<ScatterAttributes>().axis, node.operand(kIndex), updates, {.mode = mode});
}
Tensor picked(const VjpNode& node, const Tensor& x) {
  return gather(node.at(x), node.attributes<ScatterAttributes>().axis, node.operand(kIndex));
}

// An element with an update passes nothing on, and its last update all. Which one is the last shows
// a scatter of their places.
void replaced(const VjpNode& node, const Tensor& gradient) {
  const int axis = node.attributes<ScatterAttributes>().axis;
  if (node.needs(kX)) {
    node.give(kX, scattered(node, node.at(gradient), node.at(0.0), ScatterMode::set));
  }
  if (node.needs(kUpdates)) {
    const Tensor places = places_along(node, gradient.device(), node.shape(kUpdates), axis);
    Tensor none = zeros(gradient.device(), node.shape(kX), DType::i64, node.location());
    const Tensor last =
        scattered(node, node.at(std::move(none)), node.at(places), ScatterMode::set);
    Tensor is_last = equal(node.at(picked(node, last)), node.at(places));
    node.give(kUpdates,
              where(node.at(std::move(is_last)), node.at(picked(node, gradient)), node.at(0.0)));
  }
}

// All that equal the result share the gradient, as in max of an axis. Ties are counted in a type
// that holds their number.
void shared(const VjpNode& node, const Tensor& gradient) {
  const Tensor x = node.last_operand(kX).tensor();
  const Tensor updates = node.last_operand(kUpdates).tensor();
  const Tensor result = node.last_output().tensor();
  const auto chosen = [&](const Tensor& values, const Tensor& results) {
    Tensor is_equal = equal(node.at(values), node.at(results));
    Tensor is_nan = not_equal(node.at(values), node.at(values));
    return logical_or(node.at(std::move(is_equal)), node.at(std::move(is_nan)));
  };
  const Tensor is_x = chosen(x, result);
  const Tensor is_update = chosen(updates, picked(node, result));
  const Tensor wide = hearth::cast(node.at(gradient), accumulation_dtype(gradient.dtype()));
  Tensor ties = scattered(node,
                          node.at(hearth::cast(node.at(is_x), wide.dtype())),
                          node.at(hearth::cast(node.at(is_update), wide.dtype())),
                          ScatterMode::add);
  Tensor share = div(node.at(wide), node.at(std::move(ties)));
  share = hearth::cast(node.at(std::move(share)), gradient.dtype());
  if (node.needs(kX)) {
    node.give(kX, where(node.at(is_x), node.at(share), node.at(0.0)));
  }
  if (node.needs(kUpdates)) {
    node.give(kUpdates, where(node.at(is_update), node.at(picked(node, share)), node.at(0.0)));
  }
}

// The slopes of a scatter of products as polynomials, for gradients of gradients. That of x is the
// product of the updates. For that of update k, copy k of the scatter has a 1 in place of the
// updates at position k of the axis.
void multiplied_again(const VjpNode& node, const Tensor& gradient) {
  const auto wide = [&](const Arg& arg) { return hearth::cast(arg, DType::f64); };
  const Tensor x = wide(node.operand(kX));
  const Tensor updates = wide(node.operand(kUpdates));
  const Tensor scale = wide(node.at(gradient));
  if (node.needs(kX)) {
    Tensor slope =
        scattered(node, node.at(ones_like(x, node.location())), node.at(updates), ScatterMode::mul);
    Tensor given = mul(node.at(scale), node.at(std::move(slope)));
    node.give(kX, hearth::cast(node.at(std::move(given)), node.dtype(kX)));
  }
  if (node.needs(kUpdates)) {
    const int axis = node.attributes<ScatterAttributes>().axis;
    const std::int64_t n = updates.shape()[axis];
    const auto copies = [&](const Tensor& each) {
      Shape shape{n};
      for (const std::int64_t size : each.shape().dims()) {
        shape.push_back(size);
      }
      return expand(node.at(each), shape);
    };
    const Tensor places = places_along(node, x.device(), updates.shape(), axis);
    std::vector<std::int64_t> column(static_cast<std::size_t>(updates.rank()) + 1, 1);
    column[0] = n;
    Tensor copy = reshape(node.at(places_along(node, x.device(), Shape{n}, 0)), column);
    const Tensor is_own = equal(node.at(places), node.at(std::move(copy)));
    Tensor others = where(node.at(is_own), node.at(1.0), node.at(updates));
    const Tensor index = copies(node.operand(kIndex).tensor());
    Tensor products = scatter(node.at(copies(x)),
                              axis + 1,
                              node.at(index),
                              node.at(std::move(others)),
                              {.mode = ScatterMode::mul});
    Tensor chosen = gather(node.at(std::move(products)), axis + 1, node.at(index));
    chosen = where(node.at(is_own), node.at(std::move(chosen)), node.at(0.0));
    Tensor slope = sum(node.at(std::move(chosen)), {0});
    Tensor given = mul(node.at(picked(node, scale)), node.at(std::move(slope)));
    node.give(kUpdates, hearth::cast(node.at(std::move(given)), node.dtype(kUpdates)));
  }
}

// The slope at a factor is the product of the others: 0 if another one is 0, else that of all
// nonzero ones without the factor itself. Computed in f64, like that of prod.
void multiplied(const VjpNode& node, const Tensor& gradient) {
  if (node.operand(kX).tensor().is_tracked() || node.operand(kUpdates).tensor().is_tracked()) {
    multiplied_again(node, gradient);
    return;
  }
  struct Factors {
    Tensor own_zero;  // 1 for a factor of 0
    Tensor nonzero;   // 1 in its place
  };
  const auto factors = [&](int operand) {
    const Tensor x = hearth::cast(node.last_operand(operand), DType::f64);
    const Tensor is_zero = equal(node.at(x), node.at(0.0));
    return Factors{hearth::cast(node.at(is_zero), DType::f64),
                   where(node.at(is_zero), node.at(1.0), node.at(x))};
  };
  const Factors x = factors(kX);
  const Factors updates = factors(kUpdates);
  const Tensor zeros_of_all =
      scattered(node, node.at(x.own_zero), node.at(updates.own_zero), ScatterMode::add);
  const Tensor product =
      scattered(node, node.at(x.nonzero), node.at(updates.nonzero), ScatterMode::mul);
  const Tensor scaled = mul(node.at(hearth::cast(node.at(gradient), DType::f64)), node.at(product));
  const auto give = [&](int operand, const Factors& own, const Tensor& all, const Tensor& zero) {
    Tensor slope = div(node.at(all), node.at(own.nonzero));
    Tensor has_zero_beside = less(node.at(own.own_zero), node.at(zero));
    slope = where(node.at(std::move(has_zero_beside)), node.at(0.0), node.at(std::move(slope)));
    node.give(operand, hearth::cast(node.at(std::move(slope)), node.dtype(operand)));
  };
  if (node.needs(kX)) {
    give(kX, x, scaled, zeros_of_all);
  }
  if (node.needs(kUpdates)) {
    give(kUpdates, updates, picked(node, scaled), picked(node, zeros_of_all));
  }
}

}  // namespace

void scattering(const VjpNode& node, Tensor gradient) {
  switch (node.attributes<ScatterAttributes>().mode) {
    case ScatterMode::set:
      return replaced(node, gradient);
    case ScatterMode::add:
      if (node.needs(kUpdates)) {
        node.give(kUpdates, picked(node, gradient));
      }
      if (node.needs(kX)) {
        node.give(kX, std::move(gradient));
      }
      return;
    case ScatterMode::mul:
      return multiplied(node, gradient);
    case ScatterMode::min:
    case ScatterMode::max:
      return shared(node, gradient);
  }
}

}  // namespace hearth::vjp
