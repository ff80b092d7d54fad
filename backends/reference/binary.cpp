#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hearth::reference {
namespace {

// A scalar immediate is rounded to f32 for f32, f16 and bf16: every backend computes these types in
// f32.
template <class T>
T immediate(const KernelCall& call) {
  const auto scalar = call.op.attributes<ScalarAttributes>();
  if constexpr (std::is_same_v<T, double>) {
    return call.inputs[0].dtype == DType::f64
               ? scalar.real
               : static_cast<double>(static_cast<float>(scalar.real));
  } else {
    return scalar.integer;
  }
}

/// Loads both operands, broadcast to the result's shape.
template <class T>
std::pair<std::vector<T>, std::vector<T>> load_operands(const KernelCall& call) {
  const Shape& shape = call.outputs[0].shape();
  const OpRecord& record = call.op.record();
  if (record.has(RecordFlag::scalar_lhs)) {
    return {filled(shape, immediate<T>(call)), load<T>(call.inputs[0], shape)};
  }
  if (record.has(RecordFlag::scalar_rhs)) {
    return {load<T>(call.inputs[0], shape), filled(shape, immediate<T>(call))};
  }
  return {load<T>(call.inputs[0], shape), load<T>(call.inputs[1], shape)};
}

double smaller(double a, double b) {
  return std::isnan(a) || a < b ? a : b;
}
double larger(double a, double b) {
  return std::isnan(a) || a > b ? a : b;
}

double real_value(OpKind kind, double a, double b) {
  switch (kind) {
    case OpKind::add:
      return a + b;
    case OpKind::sub:
      return a - b;
    case OpKind::mul:
      return a * b;
    case OpKind::div:
      return a / b;
    case OpKind::pow:
      return std::pow(a, b);
    case OpKind::min:
      return smaller(a, b);
    case OpKind::max:
      return larger(a, b);
    case OpKind::atan2:
      return std::atan2(a, b);
    case OpKind::relu_backward:
    default:
      return b <= 0 ? 0.0 : a;
  }
}

std::int64_t integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    const bool odd = exponent % 2 != 0;
    return base == 1 ? 1 : base == -1 ? (odd ? -1 : 1) : 0;
  }
  std::int64_t result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) {
      result = times(result, base);
    }
    base = times(base, base);
  }
  return result;
}

// Narrower types have their elements' signs here, and the store keeps their low bits, so the width
// of i64 serves all.
constexpr std::int64_t kWidth = 64;

std::int64_t shifted_left(std::int64_t value, std::int64_t places) {
  return places < 0 || places >= kWidth
             ? 0
             : static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << places);
}

bool is_undefined(OpKind kind, std::int64_t a, std::int64_t b) {
  return (kind == OpKind::div && b == 0) || (kind == OpKind::pow && a == 0 && b < 0);
}

std::int64_t integer_value(OpKind kind, std::int64_t a, std::int64_t b) {
  switch (kind) {
    case OpKind::add:
      return plus(a, b);
    case OpKind::sub:
      return minus(a, b);
    case OpKind::mul:
      return times(a, b);
    case OpKind::div:
      // the smallest integer divided by -1 wraps
      return b == -1 ? minus(std::int64_t{0}, a) : a / b;
    case OpKind::pow:
      return integer_power(a, b);
    case OpKind::min:
      return a < b ? a : b;
    case OpKind::bitwise_and:
      return a & b;
    case OpKind::bitwise_or:
      return a | b;
    case OpKind::bitwise_xor:
      return a ^ b;
    case OpKind::shift_left:
      return shifted_left(a, b);
    case OpKind::shift_right:
      return a >> (b < 0 || b >= kWidth ? kWidth - 1 : b);
    case OpKind::max:
    default:
      return a > b ? a : b;
  }
}

template <class T>
bool holds(OpKind kind, T a, T b) {
  switch (kind) {
    case OpKind::equal:
      return a == b;
    case OpKind::not_equal:
      return a != b;
    case OpKind::less:
      return a < b;
    case OpKind::less_equal:
      return a <= b;
    case OpKind::greater:
      return a > b;
    case OpKind::greater_equal:
    default:
      return a >= b;
  }
}

template <class T>
void compare(const KernelCall& call) {
  const auto operands = load_operands<T>(call);
  Integers out(operands.first.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = holds(call.op.kind(), operands.first[i], operands.second[i]) ? 1 : 0;
  }
  store(call.outputs[0], out);
}

}  // namespace

Status evaluate_arithmetic(const KernelCall& call) {
  const OpKind kind = call.op.kind();
  if (is_float(call.inputs[0].dtype)) {
    auto [a, b] = load_operands<double>(call);
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] = real_value(kind, a[i], b[i]);
    }
    store(call.outputs[0], a);
    return {};
  }
  auto [a, b] = load_operands<std::int64_t>(call);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_undefined(kind, a[i], b[i])) {
      const std::string op(name(kind));
      return Error{
          .code = ErrorCode::kernel_failed,
          .text = fmt::format("{}: {} at element {}: {} and {}",
                              op,
                              kind == OpKind::div ? "division by zero" : "zero to a negative power",
                              i,
                              a[i],
                              b[i]),
          .op = op};
    }
    a[i] = integer_value(kind, a[i], b[i]);
  }
  store(call.outputs[0], a);
  return {};
}

Status evaluate_comparison(const KernelCall& call) {
  if (is_float(call.inputs[0].dtype)) {
    compare<double>(call);
  } else {
    compare<std::int64_t>(call);
  }
  return {};
}

}  // namespace hearth::reference
