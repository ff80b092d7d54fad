#include "elements.hpp"
#include "evaluators.hpp"
#include "lines.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <cstdint>
#include <vector>

namespace hearth::reference {
namespace {

template <class T>
Status cumsum(const KernelCall& call) {
  const auto attributes = call.op.attributes<ScanAttributes>();
  const TensorView& input = call.inputs[0];
  std::vector<T> values = load<T>(input);
  visit_lines(input.shape(), attributes.axis, [&](const Line& line) {
    T sum{0};
    for (std::int64_t i = 0; i < line.length; ++i) {
      T& value = at(values, line[attributes.reverse != 0 ? line.length - 1 - i : i]);
      sum = plus(sum, value);
      value = sum;
    }
  });
  store(call.outputs[0], values);
  return {};
}

}  // namespace

Status evaluate_scan(const KernelCall& call) {
  return is_float(call.inputs[0].dtype) ? cumsum<double>(call) : cumsum<std::int64_t>(call);
}

}  // namespace hearth::reference
