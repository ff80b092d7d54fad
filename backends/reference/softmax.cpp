#include "elements.hpp"
#include "evaluators.hpp"
#include "lines.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <cmath>
#include <cstdint>
#include <limits>

namespace hearth::reference {
namespace {

double largest(const Reals& values, const Line& line) {
  double best = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < line.length; ++i) {
    const double value = at(values, line[i]);
    best = value > best || std::isnan(value) ? value : best;
  }
  return best;
}

void forward_line(Reals& values, const Line& line, bool logarithm) {
  const double top = largest(values, line);
  double sum = 0;
  for (std::int64_t i = 0; i < line.length; ++i) {
    sum += std::exp(at(values, line[i]) - top);
  }
  for (std::int64_t i = 0; i < line.length; ++i) {
    double& value = at(values, line[i]);
    value = logarithm ? value - top - std::log(sum) : std::exp(value - top) / sum;
  }
}

void backward_line(Reals& grad, const Reals& y, const Line& line, bool logarithm) {
  double sum = 0;
  for (std::int64_t i = 0; i < line.length; ++i) {
    sum += logarithm ? at(grad, line[i]) : at(grad, line[i]) * at(y, line[i]);
  }
  for (std::int64_t i = 0; i < line.length; ++i) {
    double& value = at(grad, line[i]);
    const double out = at(y, line[i]);
    value = logarithm ? value - std::exp(out) * sum : out * (value - sum);
  }
}

}  // namespace

Status evaluate_softmax(const KernelCall& call) {
  const OpKind kind = call.op.kind();
  const int axis = call.op.attributes<AxisAttributes>().axis;
  const bool logarithm = kind == OpKind::log_softmax || kind == OpKind::log_softmax_backward;
  Reals values = load_reals(call.inputs[0]);
  if (call.inputs.size() == 1) {
    visit_lines(call.inputs[0].shape(), axis, [&](const Line& line) {
      forward_line(values, line, logarithm);
    });
  } else {
    const Reals y = load_reals(call.inputs[1]);
    visit_lines(call.inputs[0].shape(), axis, [&](const Line& line) {
      backward_line(values, y, line, logarithm);
    });
  }
  store(call.outputs[0], values);
  return {};
}

}  // namespace hearth::reference
