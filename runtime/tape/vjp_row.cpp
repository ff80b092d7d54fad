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

void running_sum(const VjpNode& node, Tensor gradient) {
  auto attributes = node.attributes<ScanAttributes>();
  attributes.reverse = 1 - attributes.reverse;
  const Arg input = node.at(std::move(gradient));
  node.give(0,
            detail::submit({.kind = OpKind::cumsum,
                            .location = node.location(),
                            .inputs = {&input, 1},
                            .attributes = detail::bytes_of(attributes)},
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

}  // namespace hearth::vjp
