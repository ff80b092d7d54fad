#include <vector>

#include "runtime/ops/op_parts.hpp"
#include "vjp_table.hpp"

namespace hearth::vjp {
namespace {

Tensor sum_of_row(const VjpNode& node, Tensor values) {
  const int axis = node.attributes<AxisAttributes>().axis;
  return sum(node.at(std::move(values)), {axis}, {.keep_dims = true});
}

Tensor times(const VjpNode& node, const Tensor& a, const Tensor& b) {
  return mul(node.at(a), node.at(b));
}

void give_narrow(const VjpNode& node, int operand, Tensor gradient) {
  node.give(operand, hearth::cast(node.at(std::move(gradient)), node.dtype(operand)));
}

}  // namespace

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

// The backward kind is z = y·(g - Σ g·y) along a row. It maps a gradient G of z to that of g as it
// maps g to z. That of y is G·(g - Σ g·y) - g·Σ G·y.
void softmax_gradient(const VjpNode& node, Tensor gradient) {
  if (node.needs(0)) {
    const std::array inputs{node.at(gradient), node.operand(1)};
    node.give(0,
              detail::submit({.kind = OpKind::softmax_backward,
                              .location = node.location(),
                              .inputs = inputs,
                              .attributes = node.attribute_bytes()},
                             node.dtype(0),
                             node.shape(0)));
  }
  if (node.needs(1)) {
    const Tensor g = detail::wide(node.last_operand(0));
    const Tensor y = detail::wide(node.last_operand(1));
    const Tensor outer = detail::wide(node.at(std::move(gradient)));
    Tensor centred = sub(node.at(g), node.at(sum_of_row(node, times(node, g, y))));
    const Tensor scale = sum_of_row(node, times(node, outer, y));
    Tensor own = mul(node.at(outer), node.at(std::move(centred)));
    give_narrow(node, 1, sub(node.at(std::move(own)), node.at(times(node, g, scale))));
  }
}

// The backward kind is z = g - exp(y)·Σ g along a row. A gradient G of z gives G - Σ G·exp(y) to g,
// and -G·exp(y)·Σ g to y.
void log_softmax_gradient(const VjpNode& node, Tensor gradient) {
  const Tensor outer = detail::wide(node.at(std::move(gradient)));
  Tensor powers = exp(node.at(detail::wide(node.operand(1))));
  const Tensor weighted = mul(node.at(outer), node.at(std::move(powers)));
  if (node.needs(0)) {
    give_narrow(node, 0, sub(node.at(outer), node.at(sum_of_row(node, weighted))));
  }
  if (node.needs(1)) {
    Tensor total = sum_of_row(node, detail::wide(node.last_operand(0)));
    Tensor scaled = mul(node.at(weighted), node.at(std::move(total)));
    give_narrow(node, 1, neg(node.at(std::move(scaled))));
  }
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
