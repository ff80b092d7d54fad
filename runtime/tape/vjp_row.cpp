#include <vector>

#include "vjp_table.hpp"

namespace hearth::vjp {

void row_softmax(const VjpNode& node, Tensor gradient) {
  const OpKind kind =
      node.kind() == OpKind::softmax ? OpKind::softmax_backward : OpKind::log_softmax_backward;
  const std::array inputs{node.at(std::move(gradient)), node.last_output()};
  node.give(0,
            detail::submit({.kind = kind,
                            .location = node.location(),
                            .inputs = inputs,
                            .attributes = node.attribute_bytes()},
                           node.dtype(0),
                           node.shape(0)));
}

void cross_entropy(const VjpNode& node, Tensor gradient) {
  const std::array inputs{node.at(std::move(gradient)), node.last_output(1), node.last_operand(1)};
  node.give(
      0,
      detail::submit(
          {.kind = OpKind::cross_entropy_backward, .location = node.location(), .inputs = inputs},
          node.dtype(0),
          node.shape(0)));
}

void attention(const VjpNode& node, Tensor gradient) {
  std::vector<Arg> inputs{node.at(std::move(gradient)),
                          node.last_operand(0),
                          node.last_operand(1),
                          node.last_operand(2),
                          node.last_output(0),
                          node.last_output(1)};
  if (node.operand_count() > 3) {
    inputs.push_back(node.last_operand(3));
  }
  std::array<TensorSpec, 3> specs;
  for (int i = 0; i < 3; ++i) {
    specs[static_cast<std::size_t>(i)] = {node.dtype(i), node.shape(i)};
  }
  std::array<Tensor, 3> gradients;
  detail::submit({.kind = OpKind::attention_backward,
                  .location = node.location(),
                  .inputs = inputs,
                  .attributes = node.attribute_bytes()},
                 specs,
                 gradients);
  for (int i = 0; i < 3; ++i) {
    if (node.needs(i)) {
      node.give(i, std::move(gradients[static_cast<std::size_t>(i)]));
    }
  }
}

}  // namespace hearth::vjp
