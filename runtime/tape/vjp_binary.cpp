#include "vjp_table.hpp"

#include <cmath>

namespace hearth::vjp {
namespace {

// d(a^b)/da = b·a^(b-1), and 0 where b is 0 whatever a is.
Tensor power_of_base(const VjpNode& node, const Tensor& gradient) {
  if (node.is_number(1)) {
    const double exponent = node.number();
    Tensor scaled = mul(node.at(gradient), node.at(exponent));
    if (exponent == 0 || exponent == 1) {
      return scaled;
    }
    if (exponent == 2) {
      return mul(node.at(std::move(scaled)), node.operand(0));
    }
    Tensor lower = pow(node.operand(0), node.at(exponent - 1));
    return mul(node.at(std::move(scaled)), node.at(std::move(lower)));
  }
  Tensor lower = pow(node.operand(0), node.at(sub(node.operand(1), node.at(1.0))));
  Tensor slope = mul(node.at(std::move(lower)), node.operand(1));
  Tensor is_constant = equal(node.operand(1), node.at(0.0));
  slope = where(node.at(std::move(is_constant)), node.at(0.0), node.at(std::move(slope)));
  return mul(node.at(gradient), node.at(std::move(slope)));
}

// d(a^b)/db = a^b·ln a, and 0 where a is 0, which is its limit for b > 0.
Tensor power_of_exponent(const VjpNode& node, const Tensor& gradient) {
  Tensor scaled = mul(node.at(gradient), node.last_output());
  if (node.is_number(0)) {
    const double base = node.number();
    return mul(node.at(std::move(scaled)), node.at(base == 0 ? 0.0 : std::log(base)));
  }
  Tensor is_zero = equal(node.operand(0), node.at(0.0));
  Tensor logarithm =
      log(node.at(where(node.at(std::move(is_zero)), node.at(1.0), node.operand(0))));
  return mul(node.at(std::move(scaled)), node.at(std::move(logarithm)));
}

}  // namespace

void addition(const VjpNode& node, Tensor gradient) {
  if (node.needs(0)) {
    node.give(0, gradient);
  }
  if (node.needs(1)) {
    node.give(1, std::move(gradient));
  }
}

void subtraction(const VjpNode& node, Tensor gradient) {
  if (node.needs(0)) {
    node.give(0, gradient);
  }
  if (node.needs(1)) {
    node.give(1, neg(node.at(std::move(gradient))));
  }
}

void multiplication(const VjpNode& node, Tensor gradient) {
  if (node.needs(0)) {
    node.give(0, mul(node.at(gradient), node.last_operand(1)));
  }
  if (node.needs(1)) {
    node.give(1, mul(node.at(std::move(gradient)), node.last_operand(0)));
  }
}

// y = a/b: dy/da = 1/b, dy/db = -y/b.
void division(const VjpNode& node, Tensor gradient) {
  Tensor quotient = div(node.at(std::move(gradient)), node.operand(1));
  if (node.needs(0)) {
    node.give(0, quotient);
  }
  if (node.needs(1)) {
    Tensor product = mul(node.at(std::move(quotient)), node.last_output());
    node.give(1, neg(node.at(std::move(product))));
  }
}

void power(const VjpNode& node, Tensor gradient) {
  if (node.needs(0)) {
    node.give(0, power_of_base(node, gradient));
  }
  if (node.needs(1)) {
    node.give(1, power_of_exponent(node, gradient));
  }
}

void extremum(const VjpNode& node, Tensor gradient) {
  const DType dtype = gradient.dtype();
  const bool is_max = node.kind() == OpKind::max;
  Tensor ties = hearth::cast(node.at(equal(node.operand(0), node.operand(1))), dtype);
  const Tensor halves = mul(node.at(std::move(ties)), node.at(0.5));
  for (const int side : {0, 1}) {
    if (node.needs(side)) {
      const Arg mine = node.operand(side);
      const Arg other = node.operand(1 - side);
      Tensor wins = hearth::cast(node.at(is_max ? greater(mine, other) : less(mine, other)), dtype);
      Tensor share = add(node.at(std::move(wins)), node.at(halves));
      node.give(side, mul(node.at(gradient), node.at(std::move(share))));
    }
  }
}

void selection(const VjpNode& node, Tensor gradient) {
  if (node.needs(1)) {
    node.give(1, where(node.operand(0), node.at(gradient), node.at(0.0)));
  }
  if (node.needs(2)) {
    node.give(2, where(node.last_operand(0), node.at(0.0), node.at(std::move(gradient))));
  }
}

}  // namespace hearth::vjp
