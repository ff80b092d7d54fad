#include "elements.hpp"
#include "evaluators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace hearth::reference {
namespace {

Status check_classes(const char* op, const Integers& targets, std::int64_t class_count) {
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0 || targets[row] >= class_count) {
      return Error{.code = ErrorCode::out_of_range,
                   .text = fmt::format("{}: class {} in row {} is outside the {} classes",
                                       op,
                                       targets[row],
                                       row,
                                       class_count),
                   .op = op};
    }
  }
  return {};
}

Status forward(const KernelCall& call) {
  const Shape& shape = call.inputs[0].shape();
  const Reals logits = load_reals(call.inputs[0]);
  const Integers targets = load_integers(call.inputs[1]);
  HEARTH_TRY_STATUS(check_classes("cross_entropy", targets, shape[1]));
  Reals losses;
  Reals probabilities;
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    const std::int64_t first = row * shape[1];
    double top = -std::numeric_limits<double>::infinity();
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      top = std::max(at(logits, first + c), top);  // a NaN that max skips makes the sum NaN
    }
    double sum = 0;
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      sum += std::exp(at(logits, first + c) - top);
    }
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      probabilities.push_back(std::exp(at(logits, first + c) - top) / sum);
    }
    losses.push_back(std::log(sum) + (top - at(logits, first + at(targets, row))));
  }
  store(call.outputs[0], losses);
  if (call.outputs.size() > 1) {
    store(call.outputs[1], probabilities);
  }
  return {};
}

Status backward(const KernelCall& call) {
  const Shape& shape = call.inputs[1].shape();
  const Reals grad = load_reals(call.inputs[0]);
  Reals values = load_reals(call.inputs[1]);
  const Integers targets = load_integers(call.inputs[2]);
  HEARTH_TRY_STATUS(check_classes("cross_entropy_backward", targets, shape[1]));
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    at(values, row * shape[1] + at(targets, row)) -= 1.0;
    for (std::int64_t c = 0; c < shape[1]; ++c) {
      double& value = at(values, row * shape[1] + c);
      value = at(grad, row) == 0 ? 0.0 : value * at(grad, row);  // a loss that does not count
    }
  }
  store(call.outputs[0], values);
  return {};
}

}  // namespace

Status evaluate_cross_entropy(const KernelCall& call) {
  return call.op.kind() == OpKind::cross_entropy ? forward(call) : backward(call);
}

}  // namespace hearth::reference
