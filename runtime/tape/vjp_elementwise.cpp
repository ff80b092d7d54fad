#include "runtime/ops/op_parts.hpp"
#include "vjp_table.hpp"

#include <numbers>

namespace hearth::vjp {

void negation(const VjpNode& node, Tensor gradient) {
  node.give(0, neg(node.at(std::move(gradient))));
}

// The sign at 0 is 0, and so is the gradient, even of an infinite one. At NaN a finite gradient
// gives 0, and NaN passes on.
void absolute(const VjpNode& node, Tensor gradient) {
  const Tensor above = greater(node.operand(0), node.at(0.0));
  const Tensor below = less(node.operand(0), node.at(0.0));
  const Tensor is_zero = equal(node.last_operand(0), node.at(0.0));
  Tensor rest = mul(node.at(gradient), node.at(0.0));
  rest = where(node.at(is_zero), node.at(0.0), node.at(std::move(rest)));
  Tensor up = where(node.at(above), node.at(gradient), node.at(std::move(rest)));
  Tensor down = neg(node.at(std::move(gradient)));
  node.give(0, where(node.at(below), node.at(std::move(down)), node.at(std::move(up))));
}

void exponential(const VjpNode& node, Tensor gradient) {
  node.give(0, mul(node.at(std::move(gradient)), node.last_output()));
}

void logarithm(const VjpNode& node, Tensor gradient) {
  node.give(0, div(node.at(std::move(gradient)), node.last_operand(0)));
}

void square_root(const VjpNode& node, Tensor gradient) {
  Tensor half = mul(node.at(std::move(gradient)), node.at(0.5));
  node.give(0, div(node.at(std::move(half)), node.last_output()));
}

// (x^-1/2)' = -1/2 · y³
void inverse_square_root(const VjpNode& node, Tensor gradient) {
  Tensor cube = mul(node.at(hearth::square(node.output())), node.output());
  Tensor half = mul(node.at(std::move(gradient)), node.at(-0.5));
  node.give(0, mul(node.at(std::move(half)), node.at(std::move(cube))));
}

void square(const VjpNode& node, Tensor gradient) {
  Tensor twice = mul(node.at(std::move(gradient)), node.at(2.0));
  node.give(0, mul(node.at(std::move(twice)), node.last_operand(0)));
}

void sine(const VjpNode& node, Tensor gradient) {
  Tensor slope = cos(node.last_operand(0));
  node.give(0, mul(node.at(std::move(gradient)), node.at(std::move(slope))));
}

void cosine(const VjpNode& node, Tensor gradient) {
  Tensor slope = neg(node.at(sin(node.last_operand(0))));
  node.give(0, mul(node.at(std::move(gradient)), node.at(std::move(slope))));
}

void hyperbolic_tangent(const VjpNode& node, Tensor gradient) {
  Tensor slope = sub(node.at(1.0), node.at(hearth::square(node.last_output())));
  node.give(0, mul(node.at(std::move(gradient)), node.at(std::move(slope))));
}

void error_function(const VjpNode& node, Tensor gradient) {
  constexpr double kScale = 2.0 * std::numbers::inv_sqrtpi;
  Tensor bell = exp(node.at(neg(node.at(hearth::square(node.last_operand(0))))));
  Tensor scaled = mul(node.at(std::move(gradient)), node.at(kScale));
  node.give(0, mul(node.at(std::move(scaled)), node.at(std::move(bell))));
}

void arc_tangent(const VjpNode& node, Tensor gradient) {
  Tensor square_of_it = hearth::square(node.at(detail::wide(node.last_operand(0))));
  Tensor divisor = add(node.at(std::move(square_of_it)), node.at(1.0));
  Tensor wide =
      div(node.at(detail::wide(node.at(std::move(gradient)))), node.at(std::move(divisor)));
  node.give(0, hearth::cast(node.at(std::move(wide)), node.dtype(0)));
}

void sigmoid(const VjpNode& node, Tensor gradient) {
  Tensor rest = sub(node.at(1.0), node.output());
  Tensor slope = mul(node.at(std::move(rest)), node.last_output());
  node.give(0, mul(node.at(std::move(gradient)), node.at(std::move(slope))));
}

void reciprocal(const VjpNode& node, Tensor gradient) {
  Tensor slope = neg(node.at(hearth::square(node.last_output())));
  node.give(0, mul(node.at(std::move(gradient)), node.at(std::move(slope))));
}

void logarithm_of_one_more(const VjpNode& node, Tensor gradient) {
  Tensor more = add(node.last_operand(0), node.at(1.0));
  node.give(0, div(node.at(std::move(gradient)), node.at(std::move(more))));
}

void exponential_less_one(const VjpNode& node, Tensor gradient) {
  Tensor slope = add(node.last_output(), node.at(1.0));
  node.give(0, mul(node.at(std::move(gradient)), node.at(std::move(slope))));
}

void relu(const VjpNode& node, Tensor gradient) {
  const DType dtype = gradient.dtype();
  const Shape shape = node.shape(0);
  const std::array inputs{node.at(std::move(gradient)), node.last_output()};
  node.give(
      0,
      detail::submit({.kind = OpKind::relu_backward, .location = node.location(), .inputs = inputs},
                     dtype,
                     shape));
}

// Linear in the gradient; the mask is constant where relu has a slope.
void relu_gradient(const VjpNode& node, Tensor gradient) {
  if (node.needs(0)) {
    const DType dtype = gradient.dtype();
    const std::array inputs{node.at(std::move(gradient)), node.last_operand(1)};
    node.give(0,
              detail::submit(
                  {.kind = OpKind::relu_backward, .location = node.location(), .inputs = inputs},
                  dtype,
                  node.shape(0)));
  }
}

// The same seed and counter drop the same elements.
void dropout(const VjpNode& node, Tensor gradient) {
  const Arg input = node.at(std::move(gradient));
  node.give(0,
            detail::submit({.kind = OpKind::dropout,
                            .location = node.location(),
                            .inputs = {&input, 1},
                            .attributes = node.attribute_bytes()},
                           node.dtype(0),
                           node.shape(0)));
}

void cast(const VjpNode& node, Tensor gradient) {
  node.give(0, hearth::cast(node.at(std::move(gradient)), node.dtype(0)));
}

}  // namespace hearth::vjp
