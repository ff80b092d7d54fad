#include "elements.hpp"
#include "evaluators.hpp"

#include <hearth/runtime/base/philox.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <cmath>
#include <cstdint>

namespace hearth::reference {
namespace {

void fill(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const auto value = call.op.attributes<ScalarAttributes>();
  if (is_float(out.dtype)) {
    store(out, filled(out.shape(), value.real));
  } else {
    store(out, filled(out.shape(), value.integer));
  }
}

void arange(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const auto range = call.op.attributes<ArangeAttributes>();
  if (is_float(out.dtype)) {
    Reals values = filled(out.shape(), 0.0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = range.start + static_cast<double>(i) * range.step;
    }
    store(out, values);
    return;
  }
  const auto start = static_cast<std::int64_t>(range.start);
  const auto step = static_cast<std::int64_t>(range.step);
  Integers values = filled(out.shape(), std::int64_t{0});
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = plus(start, times(static_cast<std::int64_t>(i), step));
  }
  store(out, values);
}

double random_element(OpKind kind, const RandomAttributes& random, std::uint64_t i, DType dtype) {
  if (kind == OpKind::random_uniform) {
    return random.a +
           (random.b - random.a) * philox::uniform_element(random.seed, random.counter, i, dtype);
  }
  if (kind == OpKind::random_normal) {
    return random.a + random.b * philox::normal_element(random.seed, random.counter, i, dtype);
  }
  return philox::hit_element(random.seed, random.counter, i, philox::threshold(random.a)) ? 1.0
                                                                                          : 0.0;
}

void random(const KernelCall& call) {
  const TensorView& out = call.outputs[0];
  const auto attributes = call.op.attributes<RandomAttributes>();
  const bool is_uniform = call.op.kind() == OpKind::random_uniform;
  const auto range = philox::uniform_range(attributes.a, attributes.b, out.dtype);
  Reals values = filled(out.shape(), 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = random_element(call.op.kind(), attributes, i, out.dtype);
    values[i] = is_uniform ? range.clamp(value) : value;
  }
  store(out, values);
}

}  // namespace

Status evaluate_creation(const KernelCall& call) {
  if (call.op.kind() == OpKind::fill) {
    fill(call);
  } else if (call.op.kind() == OpKind::arange) {
    arange(call);
  } else {
    random(call);
  }
  return {};
}

}  // namespace hearth::reference
