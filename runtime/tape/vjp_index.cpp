#include "vjp_table.hpp"

namespace hearth::vjp {
namespace {

OpKind adjoint_of(OpKind kind) {
  switch (kind) {
    case OpKind::gather:
      return OpKind::scatter_add;
    case OpKind::scatter_add:
      return OpKind::gather;
    case OpKind::index_select:
      return OpKind::index_add;
    default:
      return OpKind::index_select;
  }
}

}  // namespace

void indexing(const VjpNode& node, Tensor gradient) {
  const std::array inputs{node.at(std::move(gradient)), node.last_operand(1)};
  node.give(0,
            detail::submit({.kind = adjoint_of(node.kind()),
                            .location = node.location(),
                            .inputs = inputs,
                            .attributes = node.attribute_bytes(),
                            .flags = flags_of(backward_of(node.called()))},
                           node.dtype(0),
                           node.shape(0)));
}

void topk(const VjpNode& node, Tensor gradient) {
  const AxisAttributes attributes{.axis = node.attributes<TopkAttributes>().axis, .keep_dims = 0};
  const std::array inputs{node.at(std::move(gradient)), node.last_output(1)};
  node.give(0,
            detail::submit({.kind = OpKind::scatter_add,
                            .location = node.location(),
                            .inputs = inputs,
                            .attributes = detail::bytes_of(attributes)},
                           node.dtype(0),
                           node.shape(0)));
}

}  // namespace hearth::vjp
