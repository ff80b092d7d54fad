#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/runtime/base/philox.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cmath>
#include <cstdint>

namespace hearth::reference {
namespace {

double real_value(OpKind kind, double x) {
  switch (kind) {
    case OpKind::neg:
      return -x;
    case OpKind::abs:
      return std::fabs(x);
    case OpKind::exp:
      return std::exp(x);
    case OpKind::log:
      return std::log(x);
    case OpKind::sqrt:
      return std::sqrt(x);
    case OpKind::rsqrt:
      return 1.0 / std::sqrt(x);
    case OpKind::square:
      return x * x;
    case OpKind::sin:
      return std::sin(x);
    case OpKind::cos:
      return std::cos(x);
    case OpKind::tanh:
      return std::tanh(x);
    case OpKind::erf:
      return std::erf(x);
    case OpKind::sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case OpKind::recip:
      return 1.0 / x;
    case OpKind::log1p:
      return std::log1p(x);
    case OpKind::expm1:
      return std::expm1(x);
    case OpKind::floor:
      return std::floor(x);
    case OpKind::ceil:
      return std::ceil(x);
    case OpKind::round:
      return std::nearbyint(x);  // halves to even; no thread changes the rounding mode
    case OpKind::trunc:
      return std::trunc(x);
    case OpKind::atan:
      return std::atan(x);
    case OpKind::relu:
    default:
      return x < 0 ? 0.0 : x;  // NaN is not below 0 and is kept
  }
}

std::int64_t integer_value(OpKind kind, std::int64_t x) {
  switch (kind) {
    case OpKind::neg:
      return minus(std::int64_t{0}, x);
    case OpKind::abs:
      return x < 0 ? minus(std::int64_t{0}, x) : x;
    case OpKind::square:
    default:
      return times(x, x);
  }
}

}  // namespace

Status evaluate_unary(const KernelCall& call) {
  const TensorView& input = call.inputs[0];
  if (is_float(input.dtype)) {
    Reals values = load_reals(input);
    for (double& value : values) {
      value = real_value(call.op.kind(), value);
    }
    store(call.outputs[0], values);
  } else {
    Integers values = load_integers(input);
    for (std::int64_t& value : values) {
      value = integer_value(call.op.kind(), value);
    }
    store(call.outputs[0], values);
  }
  return {};
}

Status evaluate_cast(const KernelCall& call) {
  if (is_float(call.inputs[0].dtype)) {
    store(call.outputs[0], load_reals(call.inputs[0]));
  } else {
    store(call.outputs[0], load_integers(call.inputs[0]));
  }
  return {};
}

Status evaluate_dropout(const KernelCall& call) {
  const auto random = call.op.attributes<RandomAttributes>();
  const std::uint32_t dropped = philox::threshold(random.a);
  Reals values = load_reals(call.inputs[0]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool drop = philox::hit_element(random.seed, random.counter, i, dropped);
    values[i] = drop ? 0.0 : values[i] / (1.0 - random.a);
  }
  store(call.outputs[0], values);
  return {};
}

}  // namespace hearth::reference
