// Steps that work element by element, and creations.
#include "step_table.hpp"

#include <cmath>
#include <limits>
#include <numbers>

namespace hearth::onnx {
namespace element_steps_of {
namespace {

// Opset 18 lacks some ops for bf16. They run in f32, which has all values of bf16.
DType computed_in(DType dtype) {
  return dtype == DType::bf16 ? DType::f32 : dtype;
}

std::string_view same_node(OpKind kind) {
  switch (kind) {
    case OpKind::neg:
      return "Neg";
    case OpKind::abs:
      return "Abs";
    case OpKind::exp:
      return "Exp";
    case OpKind::log:
      return "Log";
    case OpKind::sqrt:
      return "Sqrt";
    case OpKind::tanh:
      return "Tanh";
    case OpKind::erf:
      return "Erf";
    case OpKind::sigmoid:
      return "Sigmoid";
    case OpKind::recip:
      return "Reciprocal";
    case OpKind::relu:
      return "Relu";
    case OpKind::floor:
      return "Floor";
    case OpKind::ceil:
      return "Ceil";
    default:
      return "Identity";  // copy
  }
}

void same(StepCall& call) {
  call.result(call.add(std::string(same_node(call.kind())), {call.input(0)}));
}

void negate(StepCall& call) {
  if (call.input_dtype(0) == DType::u8) {
    call.refuse("ONNX's Neg takes no u8", "subtract from 0 in i32");
    return;
  }
  same(call);
}

// sin, cos, round, atan
void wide(StepCall& call) {
  const DType dtype = call.input_dtype(0);
  const DType inside = computed_in(dtype);
  const std::string op = call.kind() == OpKind::sin    ? "Sin"
                         : call.kind() == OpKind::cos  ? "Cos"
                         : call.kind() == OpKind::atan ? "Atan"
                                                       : "Round";
  const std::string value = call.add(op, {call.cast(call.input(0), dtype, inside)});
  call.result(call.cast(value, inside, dtype));
}

void truncate(StepCall& call) {
  const std::string x = call.input(0);
  const std::string is_below = call.add("Less", {x, call.draft().scalar(call.input_dtype(0), 0.0)});
  call.result(call.add("Where", {is_below, call.add("Ceil", {x}), call.add("Floor", {x})}));
}

// Formulas of several nodes round once, so 16-bit types run in f32.
DType formula_type(DType dtype) {
  return dtype == DType::f16 ? DType::f32 : computed_in(dtype);
}

void reciprocal_root(StepCall& call) {
  const DType dtype = call.input_dtype(0);
  const DType inside = formula_type(dtype);
  const std::string root = call.add("Sqrt", {call.cast(call.input(0), dtype, inside)});
  call.result(call.cast(call.add("Reciprocal", {root}), inside, dtype));
}

void square(StepCall& call) {
  call.result(call.add("Mul", {call.input(0), call.input(0)}));
}

// log(1 + x) and exp(x) - 1, exact near 0: the rounding error of the sum is divided out.
// Source: Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.14.1.
void near_one(StepCall& call) {
  const DType dtype = call.input_dtype(0);
  const DType inside = formula_type(dtype);
  const bool is_log = call.kind() == OpKind::log1p;
  const auto number = [&](double value) { return call.draft().scalar(inside, value); };
  const std::string one = number(1);
  const std::string x = call.cast(call.input(0), dtype, inside);
  const std::string shifted = is_log ? call.add("Add", {x, one}) : call.add("Exp", {x});
  const std::string log = call.add("Log", {shifted});
  const std::string rest = call.add("Sub", {shifted, one});
  std::string value = is_log ? call.add("Mul", {log, call.add("Div", {x, rest})})
                             : call.add("Mul", {rest, call.add("Div", {x, log})});
  const auto unless = [&](const std::string& other, double limit, const std::string& there) {
    value = call.add("Where", {call.add("Equal", {other, number(limit)}), there, value});
  };
  unless(shifted, 1, x);
  unless(shifted, std::numeric_limits<double>::infinity(), shifted);
  if (!is_log) {
    unless(rest, -1, rest);
  }
  call.result(call.cast(value, inside, dtype));
}

// The names of both operands; an immediate becomes a constant of the other's type.
std::pair<std::string, std::string> operands(StepCall& call) {
  if (!call.has(RecordFlag::scalar_lhs) && !call.has(RecordFlag::scalar_rhs)) {
    return {call.input(0), call.input(1)};
  }
  const std::string scalar =
      call.draft().scalar(call.input_dtype(0), call.attributes<ScalarAttributes>());
  return call.has(RecordFlag::scalar_lhs) ? std::pair(scalar, call.input(0))
                                          : std::pair(call.input(0), scalar);
}

std::string pair_node(OpKind kind, bool is_boolean) {
  switch (kind) {
    case OpKind::add:
      return "Add";
    case OpKind::sub:
      return "Sub";
    case OpKind::mul:
      return "Mul";
    case OpKind::div:
      return "Div";
    case OpKind::pow:
      return "Pow";
    case OpKind::min:
      return is_boolean ? "And" : "Min";
    case OpKind::max:
      return is_boolean ? "Or" : "Max";
    case OpKind::less:
      return "Less";
    case OpKind::less_equal:
      return "LessOrEqual";
    case OpKind::greater:
      return "Greater";
    case OpKind::greater_equal:
      return "GreaterOrEqual";
    default:
      return "Equal";
  }
}

void pair(StepCall& call) {
  const bool has_scalar = call.has(RecordFlag::scalar_lhs) || call.has(RecordFlag::scalar_rhs);
  if (has_scalar && !call.has_equal_attributes()) {
    call.refuse("a number in the forward pass depends on the size of a named axis",
                "leave the axis without a name, so that its size is fixed");
    return;
  }
  const auto [a, b] = operands(call);
  const bool is_power = call.kind() == OpKind::pow;
  const DType dtype = call.input_dtype(0);
  if (is_power && (dtype == DType::u8 || dtype == DType::i8)) {
    call.refuse("ONNX's Pow takes no integers of 8 bits", "compute in i32");
    return;
  }
  const std::string value = call.add(pair_node(call.kind(), dtype == DType::boolean), {a, b});
  call.result(call.kind() == OpKind::not_equal ? call.add("Not", {value}) : value);
}

// ONNX has no node for the angle of a point. The arc tangent of the quotient belongs to the right
// half; the left one is half a turn further, and on the axis between them the sign decides.
void angle(StepCall& call) {
  const auto [y, x] = operands(call);
  const DType dtype = call.input_dtype(0);
  const DType inside = formula_type(dtype);
  const auto number = [&](double value) { return call.draft().scalar(inside, value); };
  const std::string height = call.cast(y, dtype, inside);
  const std::string width = call.cast(x, dtype, inside);
  const std::string zero = number(0);
  const std::string near = call.add("Atan", {call.add("Div", {height, width})});
  const std::string half_turn = call.add(
      "Where",
      {call.add("Less", {height, zero}), number(-std::numbers::pi), number(std::numbers::pi)});
  std::string value = call.add(
      "Where", {call.add("Less", {width, zero}), call.add("Add", {near, half_turn}), near});
  const std::string upright =
      call.add("Mul", {call.add("Sign", {height}), number(std::numbers::pi / 2)});
  value = call.add("Where", {call.add("Equal", {width, zero}), upright, value});
  call.result(call.cast(value, inside, dtype));
}

void join_bits(StepCall& call) {
  const auto [a, b] = operands(call);
  const std::string op = call.kind() == OpKind::bitwise_and  ? "And"
                         : call.kind() == OpKind::bitwise_or ? "Or"
                                                             : "Xor";
  const bool is_boolean = call.input_dtype(0) == DType::boolean;
  call.result(call.add(is_boolean ? op : "Bitwise" + op, {a, b}));
}

void shift(StepCall& call) {
  if (call.input_dtype(0) != DType::u8) {
    call.refuse("ONNX's BitShift takes no integers with a sign",
                "shift u8, or multiply and divide");
    return;
  }
  const auto [a, b] = operands(call);
  const std::string direction = call.kind() == OpKind::shift_left ? "LEFT" : "RIGHT";
  call.result(call.add("BitShift", {a, b}, {{"direction", direction}}));
}

void choose(StepCall& call) {
  call.result(call.add("Where", {call.input(0), call.input(1), call.input(2)}));
}

void convert(StepCall& call) {
  call.result(call.cast(call.input(0), call.output_dtype()));
}

void fill(StepCall& call) {
  if (!call.has_equal_attributes()) {
    call.refuse("a number in the forward pass depends on the size of a named axis",
                "leave the axis without a name, so that its size is fixed");
    return;
  }
  const std::string value =
      call.draft().scalar(call.output_dtype(), call.attributes<ScalarAttributes>());
  const std::vector<Sizes> shape = call.output_shape();
  call.result(shape.empty() ? call.add("Identity", {value})
                            : call.add("Expand", {value, call.shape(shape)}));
}

// start + i*step. Integers round start and step toward zero.
void count_up(StepCall& call) {
  if (!call.has_equal_attributes()) {
    call.refuse("the start or step of arange depends on the size of a named axis",
                "leave the axis without a name, so that its size is fixed");
    return;
  }
  const auto given = call.attributes<ArangeAttributes>();
  const DType dtype = call.output_dtype();
  const std::string length =
      call.add("Squeeze", {call.size(call.output_shape().front()), call.draft().integers({0})});
  std::string value = call.add("Range", {call.draft().integer(0), length, call.draft().integer(1)});
  const DType inside = is_float(dtype) ? computed_in(dtype) : DType::i64;
  value = call.cast(value, DType::i64, inside);
  const auto number = [&](double real) {
    return call.draft().scalar(inside, is_float(dtype) ? real : std::trunc(real));
  };
  if (given.step != 1) {
    value = call.add("Mul", {value, number(given.step)});
  }
  if (given.start != 0) {
    value = call.add("Add", {value, number(given.start)});
  }
  call.result(call.cast(value, inside, dtype));
}

constexpr StepRow kRows[] = {
    {OpKind::neg, negate},
    {OpKind::abs, same},
    {OpKind::exp, same},
    {OpKind::log, same},
    {OpKind::sqrt, same},
    {OpKind::tanh, same},
    {OpKind::erf, same},
    {OpKind::sigmoid, same},
    {OpKind::recip, same},
    {OpKind::relu, same},
    {OpKind::floor, same},
    {OpKind::ceil, same},
    {OpKind::copy, same},
    {OpKind::sin, wide},
    {OpKind::cos, wide},
    {OpKind::round, wide},
    {OpKind::trunc, truncate},
    {OpKind::rsqrt, reciprocal_root},
    {OpKind::square, square},
    {OpKind::log1p, near_one},
    {OpKind::expm1, near_one},
    {OpKind::add, pair},
    {OpKind::sub, pair},
    {OpKind::mul, pair},
    {OpKind::div, pair},
    {OpKind::pow, pair},
    {OpKind::min, pair},
    {OpKind::max, pair},
    {OpKind::equal, pair},
    {OpKind::not_equal, pair},
    {OpKind::less, pair},
    {OpKind::less_equal, pair},
    {OpKind::greater, pair},
    {OpKind::greater_equal, pair},
    {OpKind::where, choose},
    {OpKind::cast, convert},
    {OpKind::fill, fill},
    {OpKind::arange, count_up},
    {OpKind::atan, wide},
    {OpKind::atan2, angle},
    {OpKind::bitwise_and, join_bits},
    {OpKind::bitwise_or, join_bits},
    {OpKind::bitwise_xor, join_bits},
    {OpKind::shift_left, shift},
    {OpKind::shift_right, shift},
};

}  // namespace
}  // namespace element_steps_of

std::span<const StepRow> element_steps() {
  return element_steps_of::kRows;
}

}  // namespace hearth::onnx
