#include "expression.hpp"

#include <hearth/streams/kernel/expression.hpp>

#include "pointwise.hpp"

namespace hearth::vulkan {

Support supports_expression(const KernelCall& call, const DeviceLimits& limits) {
  if (call.expression == nullptr) {
    return {.yes = false, .reason = "expression without the function that it stands for"};
  }
  return supports_types(call.expression->kernel, call.expression->name, limits);
}

Status encode_expression(const KernelCall& call, KernelEncoder& encoder) {
  return encode_pointwise_expression(call, encoder);
}

}  // namespace hearth::vulkan
