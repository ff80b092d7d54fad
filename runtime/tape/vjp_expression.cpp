#include <array>
#include <cstring>
#include <vector>

#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/tensor_impl.hpp"
#include "runtime/ops/expression_op.hpp"
#include "vjp_table.hpp"

#include <hearth/runtime/tensor_access.hpp>

namespace hearth::vjp {

// An expression holds its gradients, one for each input, as expressions of its inputs, its
// parameters and the gradient of its result.
void expression(const VjpNode& node, Tensor gradient) {
  const std::span<const std::byte> bytes = node.attribute_bytes();
  ExpressionAttributes attributes;
  std::memcpy(&attributes, bytes.data(), sizeof attributes);
  std::array<std::uint64_t, kMostExpressionParameters> parameters{};
  std::memcpy(
      parameters.data(), bytes.data() + sizeof attributes, bytes.size() - sizeof attributes);
  const ExpressionTable& table =
      detail::TensorAccess::impl(gradient)->endpoint->tables().expressions;
  const Expression& forward = table[ExprId{attributes.expression}];
  for (std::size_t i = 0; i < forward.gradients.size(); ++i) {
    const ExpressionGradient& rule = forward.gradients[i];
    if (!node.needs(static_cast<int>(i)) || rule.expression == nullptr) {
      continue;
    }
    std::vector<Arg> inputs;
    for (const std::uint8_t input : rule.inputs) {
      const bool is_operand = input < forward.gradients.size();
      inputs.push_back(is_operand ? node.operand(input) : node.at(std::as_const(gradient)));
    }
    std::vector<std::uint64_t> numbers;
    for (const std::uint8_t scalar : rule.scalars) {
      numbers.push_back(parameters[scalar]);
    }
    Tensor result;
    detail::submit({.expression = rule.expression,
                    .inputs = inputs,
                    .parameters = detail::ParameterBits(numbers),
                    .location = node.location()},
                   {&result, 1});
    node.give(static_cast<int>(i), std::move(result));
  }
}

}  // namespace hearth::vjp
