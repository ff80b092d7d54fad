#include "runtime/ops/op_parts.hpp"
#include "vjp_table.hpp"

#include <cmath>

namespace hearth::vjp {
namespace {

// d(a^b)/da = b·a^(b-1), and 0 where b is 0, for every a.
Tensor power_of_base(const VjpNode& node, const Tensor& gradient) {
  if (node.is_number(1)) {
    const double exponent = node.number();
    if (exponent == 0) {
      return zeros_like(gradient, node.location());
    }
    if (exponent == 1) {
      return gradient;
    }
    Tensor scaled = mul(node.at(gradient), node.at(exponent));
    if (exponent == 2) {
      return mul(node.at(std::move(scaled)), node.operand(0));
    }
    Tensor lower = pow(node.operand(0), node.at(exponent - 1));
    return mul(node.at(std::move(scaled)), node.at(std::move(lower)));
  }
  if (node.operand(1).tensor().is_tracked()) {
    // The slope's own slope at an exponent of 0 is 1/a, so only 0^-1 is replaced.
    const Tensor base = node.operand(0).tensor();
    Tensor is_zero = equal(node.at(base), node.at(0.0));
    Tensor no_power = equal(node.operand(1), node.at(0.0));
    Tensor is_pole = logical_and(node.at(std::move(is_zero)), node.at(std::move(no_power)));
    Tensor safe = where(node.at(std::move(is_pole)), node.at(1.0), node.at(base));
    Tensor lower = sub(node.operand(1), node.at(1.0));
    Tensor slope =
        mul(node.at(pow(node.at(std::move(safe)), node.at(std::move(lower)))), node.operand(1));
    return mul(node.at(gradient), node.at(std::move(slope)));
  }
  Tensor lower = pow(node.operand(0), node.at(sub(node.operand(1), node.at(1.0))));
  Tensor slope = mul(node.at(std::move(lower)), node.operand(1));
  Tensor given = mul(node.at(gradient), node.at(std::move(slope)));
  Tensor is_constant = equal(node.operand(1), node.at(0.0));
  return where(node.at(std::move(is_constant)), node.at(0.0), node.at(std::move(given)));
}

// d(a^b)/db = a^b·ln a, and 0 where a is 0 and b is not negative, which is its limit for b > 0.
Tensor power_of_exponent(const VjpNode& node, const Tensor& gradient) {
  const bool is_number = node.is_number(0);
  Tensor slope;
  if (is_number) {
    slope = mul(node.last_output(), node.at(std::log(node.number())));
  } else {
    slope = mul(node.last_output(), node.at(log(node.operand(0))));
  }
  Tensor given = mul(node.at(gradient), node.at(std::move(slope)));
  if (is_number && node.number() != 0) {
    return given;
  }
  Tensor is_flat = greater_equal(node.operand(1), node.at(0.0));
  if (!is_number) {
    Tensor is_zero = equal(node.operand(0), node.at(0.0));
    is_flat = logical_and(node.at(std::move(is_zero)), node.at(std::move(is_flat)));
  }
  return where(node.at(std::move(is_flat)), node.at(0.0), node.at(std::move(given)));
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

// Comparisons with NaN are false, so both sides get the whole gradient then. No product with 0, so
// an infinite gradient does not become NaN.
void extremum(const VjpNode& node, Tensor gradient) {
  const bool is_max = node.kind() == OpKind::max;
  Tensor is_tie = equal(node.operand(0), node.operand(1));
  Tensor half = mul(node.at(gradient), node.at(0.5));
  const Tensor share =
      where(node.at(std::move(is_tie)), node.at(std::move(half)), node.at(std::move(gradient)));
  for (const int side : {0, 1}) {
    if (node.needs(side)) {
      const Arg mine = node.operand(side);
      const Arg other = node.operand(1 - side);
      Tensor loses = is_max ? less(mine, other) : greater(mine, other);
      node.give(side, where(node.at(std::move(loses)), node.at(0.0), node.at(share)));
    }
  }
}

// With the sides as parts of the longer one, as the sum of their squares may overflow.
void angle(const VjpNode& node, Tensor gradient) {
  std::array<Tensor, 2> sides;
  for (const int i : {0, 1}) {
    if (!node.is_number(i)) {
      sides[static_cast<std::size_t>(i)] = detail::wide(node.operand(i));
    }
  }
  const auto side = [&](int i) {
    return node.is_number(i) ? node.at(node.number())
                             : node.at(std::as_const(sides[static_cast<std::size_t>(i)]));
  };
  const auto magnitude = [&](int i) { return node.is_number(i) ? Tensor() : abs(side(i)); };
  const std::array lengths{magnitude(0), magnitude(1)};
  const auto length = [&](int i) {
    return node.is_number(i) ? node.at(std::abs(node.number()))
                             : node.at(lengths[static_cast<std::size_t>(i)]);
  };
  const Tensor longer = maximum(length(0), length(1));
  const std::array parts{div(side(0), node.at(longer)), div(side(1), node.at(longer))};
  Tensor squares = add(node.at(square(node.at(parts[0]))), node.at(square(node.at(parts[1]))));
  Tensor divisor = mul(node.at(std::move(squares)), node.at(longer));
  const Tensor rate =
      div(node.at(detail::wide(node.at(std::move(gradient)))), node.at(std::move(divisor)));
  for (const int i : {0, 1}) {
    if (node.needs(i)) {
      Tensor slope = mul(node.at(rate), node.at(parts[static_cast<std::size_t>(1 - i)]));
      slope = i == 0 ? slope : neg(node.at(std::move(slope)));
      node.give(i, hearth::cast(node.at(std::move(slope)), node.dtype(i)));
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
