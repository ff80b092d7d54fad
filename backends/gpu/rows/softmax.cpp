// Softmax and related ops: converts their operands to lines along the axis; line_shader.cpp splits
// the work.
#include "softmax.hpp"

#include "line_plan.hpp"
#include "line_shader.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <array>

namespace hearth::gpu {
namespace {

LineKind line_kind(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::softmax:
      return LineKind::softmax;
    case OpKind::log_softmax:
      return LineKind::log_softmax;
    case OpKind::softmax_backward:
      return LineKind::softmax_backward;
    default:
      return LineKind::log_softmax_backward;
  }
}

}  // namespace

Status encode_softmax(const KernelCall& call, KernelEncoder& encoder) {
  if (encoder.guard() != 0) {
    return Error{.code = ErrorCode::unsupported, .text = "softmax joins no update group"};
  }
  const TensorView& out = call.outputs[0];
  if (out.element_count() == 0) {
    return {};
  }
  const std::size_t inputs = call.inputs.size();
  std::array<LineOperand, 3> operands;
  for (std::size_t i = 0; i < inputs; ++i) {
    operands[i] = {call.inputs[i].data, call.inputs[i].strides()};
  }
  operands[inputs] = {out.data, contiguous_strides(out.shape())};
  const LinePlan plan = plan_lines(out.shape(),
                                   call.op.attributes<AxisAttributes>().axis,
                                   out.dtype,
                                   std::span(operands).first(inputs + 1),
                                   static_cast<int>(inputs),
                                   encoder.limits());
  return encode_lines({.kind = line_kind(call.op.kind()),
                       .dtype = out.dtype,
                       .x = address_of(call.inputs[0]),
                       .y = inputs > 1 ? address_of(call.inputs[1]) : 0,
                       .out = address_of(out)},
                      plan,
                      encoder);
}

Support supports_softmax(const KernelCall& call, const DeviceLimits& limits) {
  if (call.inputs[0].dtype == DType::f64 && !limits.has_f64) {
    return {.yes = false, .reason = "the device has no doubles in shaders"};
  }
  return {};
}

bool softmax_may_alias(OpKind kind, int index) noexcept {
  static_cast<void>(kind);
  return index >= 0;
}

}  // namespace hearth::gpu
