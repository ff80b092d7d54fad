#include "elements.hpp"
#include "evaluators.hpp"
#include "lines.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace hearth::reference {
namespace {

/// For each axis of the input, the stride of the result's dense index: 0 where the axis is reduced.
Strides result_strides(const Shape& shape, std::uint32_t axes) {
  Strides strides{};
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if ((axes >> static_cast<unsigned>(axis) & 1U) == 0) {
      strides[static_cast<std::size_t>(axis)] = step;
      step *= shape[axis];
    }
  }
  return strides;
}

Error nothing_to_reduce(const char* op, const Shape& shape) {
  return Error{.code = ErrorCode::invalid_argument,
               .text = fmt::format("{}: no elements to choose from in {}", op, shape.to_string()),
               .op = op};
}

template <class T>
void accumulate(OpKind kind, T& into, T value) {
  if (kind != OpKind::reduce_max) {
    into = plus(into, value);
  } else if (value > into || value != value) {  // NaN beats all, and nothing is above NaN
    into = value;
  }
}

template <class T>
Status reduce(const KernelCall& call) {
  const OpKind kind = call.op.kind();
  const TensorView& input = call.inputs[0];
  const TensorView& result = call.outputs[0];
  const auto axes = call.op.attributes<ReduceAttributes>().axes;
  const bool picks = kind == OpKind::reduce_max;
  if (picks && input.element_count() == 0 && result.element_count() != 0) {
    return nothing_to_reduce("max", input.shape());
  }
  constexpr T kLowest = std::is_same_v<T, double>
                            ? static_cast<T>(-std::numeric_limits<double>::infinity())
                            : std::numeric_limits<T>::lowest();
  std::vector<T> out = filled(result.shape(), picks ? kLowest : T{0});
  const std::vector<T> values = load<T>(input);
  std::size_t next = 0;
  visit_offsets(input.shape(), result_strides(input.shape(), axes), [&](std::int64_t place) {
    accumulate(kind, at(out, place), values[next++]);
  });
  if constexpr (std::is_same_v<T, double>) {
    if (kind == OpKind::reduce_mean) {
      double count = 1;
      for (int axis = 0; axis < input.shape().rank(); ++axis) {
        count *= (axes >> static_cast<unsigned>(axis) & 1U) != 0
                     ? static_cast<double>(input.shape()[axis])
                     : 1.0;
      }
      for (double& value : out) {
        value /= count;
      }
    }
  }
  store(result, out);
  return {};
}

template <class T>
Status argmax(const KernelCall& call) {
  const TensorView& input = call.inputs[0];
  const int axis = call.op.attributes<AxisAttributes>().axis;
  if (input.shape()[axis] == 0 && call.outputs[0].element_count() != 0) {
    return nothing_to_reduce("argmax", input.shape());
  }
  const std::vector<T> values = load<T>(input);
  Integers out;
  visit_lines(input.shape(), axis, [&](const Line& line) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < line.length; ++i) {
      const T value = at(values, line[i]);
      const T champion = at(values, line[best]);
      if (champion == champion && (value > champion || value != value)) {  // the first NaN stays
        best = i;
      }
    }
    out.push_back(best);
  });
  store(call.outputs[0], out);
  return {};
}

}  // namespace

Status evaluate_reduction(const KernelCall& call) {
  const bool real = is_float(call.inputs[0].dtype);
  if (call.op.kind() == OpKind::argmax) {
    return real ? argmax<double>(call) : argmax<std::int64_t>(call);
  }
  return real ? reduce<double>(call) : reduce<std::int64_t>(call);
}

}  // namespace hearth::reference
