#include "elements.hpp"
#include "evaluators.hpp"
#include "lines.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <cstdint>
#include <vector>

namespace hearth::reference {
namespace {

template <class T>
T joined(OpKind kind, T so_far, T value) {
  switch (kind) {
    case OpKind::cumprod:
      return times(so_far, value);
    case OpKind::cummax:  // NaN stays
      return value > so_far || value != value ? value : so_far;
    case OpKind::cummin:
      return value < so_far || value != value ? value : so_far;
    default:
      return plus(so_far, value);
  }
}

template <class T>
Status scan(const KernelCall& call) {
  const auto attributes = call.op.attributes<ScanAttributes>();
  const TensorView& input = call.inputs[0];
  std::vector<T> values = load<T>(input);
  visit_lines(input.shape(), attributes.axis, [&](const Line& line) {
    const auto place = [&](std::int64_t i) {
      return line[attributes.reverse != 0 ? line.length - 1 - i : i];
    };
    for (std::int64_t i = 1; i < line.length; ++i) {
      at(values, place(i)) = joined(call.op.kind(), at(values, place(i - 1)), at(values, place(i)));
    }
  });
  store(call.outputs[0], values);
  return {};
}

}  // namespace

Status evaluate_scan(const KernelCall& call) {
  return is_float(call.inputs[0].dtype) ? scan<double>(call) : scan<std::int64_t>(call);
}

}  // namespace hearth::reference
