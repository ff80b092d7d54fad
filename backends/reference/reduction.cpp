#include "elements.hpp"
#include "evaluators.hpp"
#include "lines.hpp"

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

namespace hearth::reference {
namespace {

/// Returns, for each axis of the input, the stride of the result's dense index; 0 for a reduced
/// axis.
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

Error nothing_to_reduce(OpKind kind, const Shape& shape) {
  const std::string op(name(kind));
  return Error{.code = ErrorCode::invalid_argument,
               .text = fmt::format("{}: no elements to choose from in {}", op, shape.to_string()),
               .op = op};
}

// NaN beats every number, and nothing beats NaN.
template <class T>
bool beats(bool smallest, T value, T champion) {
  const bool is_better = smallest ? value < champion : value > champion;
  return champion == champion && (is_better || value != value);
}

template <class T>
T start_of(OpKind kind) {
  using Limits = std::numeric_limits<T>;
  constexpr bool kReal = std::is_same_v<T, double>;
  switch (kind) {
    case OpKind::reduce_max:
      return kReal ? -Limits::infinity() : Limits::lowest();
    case OpKind::reduce_min:
      return kReal ? Limits::infinity() : Limits::max();
    case OpKind::reduce_prod:
      return T{1};
    default:
      return T{0};
  }
}

template <class T>
void accumulate(OpKind kind, T& into, T value) {
  switch (kind) {
    case OpKind::reduce_max:
    case OpKind::reduce_min:
      into = beats(kind == OpKind::reduce_min, value, into) ? value : into;
      break;
    case OpKind::reduce_prod:
      into = times(into, value);
      break;
    default:
      into = plus(into, value);
      break;
  }
}

template <class T>
Status reduce(const KernelCall& call) {
  const OpKind kind = call.op.kind();
  const TensorView& input = call.inputs[0];
  const TensorView& result = call.outputs[0];
  const auto axes = call.op.attributes<ReduceAttributes>().axes;
  const bool picks = kind == OpKind::reduce_max || kind == OpKind::reduce_min;
  if (picks && input.element_count() == 0 && result.element_count() != 0) {
    return nothing_to_reduce(kind, input.shape());
  }
  std::vector<T> out = filled(result.shape(), start_of<T>(kind));
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

// Computes argmax and argmin.
template <class T>
Status position(const KernelCall& call) {
  const OpKind kind = call.op.kind();
  const TensorView& input = call.inputs[0];
  const int axis = call.op.attributes<AxisAttributes>().axis;
  if (input.shape()[axis] == 0 && call.outputs[0].element_count() != 0) {
    return nothing_to_reduce(kind, input.shape());
  }
  const std::vector<T> values = load<T>(input);
  Integers out;
  visit_lines(input.shape(), axis, [&](const Line& line) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < line.length; ++i) {
      if (beats(kind == OpKind::argmin, at(values, line[i]), at(values, line[best]))) {
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
  const OpKind kind = call.op.kind();
  const bool real = is_float(call.inputs[0].dtype);
  if (kind == OpKind::argmax || kind == OpKind::argmin) {
    return real ? position<double>(call) : position<std::int64_t>(call);
  }
  return real ? reduce<double>(call) : reduce<std::int64_t>(call);
}

}  // namespace hearth::reference
