#include "expression.hpp"

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_attributes.hpp>

#include "pointwise.hpp"
#include "rows.hpp"

namespace hearth::gpu {

Support supports_expression(const KernelCall& call, const DeviceLimits& limits) {
  if (call.expression == nullptr) {
    return {.yes = false, .reason = "expression without the function that it stands for"};
  }
  return supports_types(call.expression->kernel, call.expression->name, limits);
}

Status encode_expression(const KernelCall& call, KernelEncoder& encoder) {
  return call.op.attributes<ExpressionAttributes>().row_axes == 0
             ? encode_pointwise_expression(call, encoder)
             : encode_rows(call, encoder);
}

}  // namespace hearth::gpu
