#include "vjp_node.hpp"

#include "tape_budget.hpp"
#include "tape_traffic.hpp"

#include <bit>
#include <vector>

namespace hearth {
namespace {

bool has(const TapeNode& node, RecordFlag flag) noexcept {
  return (node.flags & static_cast<std::uint16_t>(flag)) != 0;
}

// The number of bits set below bit `index`.
std::size_t rank_of(std::uint8_t mask, int index) noexcept {
  return static_cast<std::size_t>(
      std::popcount(mask & ((1U << static_cast<unsigned>(index)) - 1U)));
}

// The adjoint of broadcasting: sums over the axes that `target` lacks or has with size 1.
Tensor sum_to(Tensor gradient, const Shape& target, SourceLoc location) {
  const Shape from = gradient.shape();
  if (from == target) {
    return gradient;
  }
  const int extra = from.rank() - target.rank();
  std::vector<int> axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (axis < extra || (target[axis - extra] == 1 && from[axis] != 1)) {
      axes.push_back(axis);
    }
  }
  if (!axes.empty()) {
    gradient = sum(Arg(std::move(gradient), location), axes, {.keep_dims = true});
  }
  return reshape(Arg(std::move(gradient), location), target.dims());
}

}  // namespace

bool VjpNode::is_number(int operand) const noexcept {
  return (operand == 0 && has(*node_, RecordFlag::scalar_lhs)) ||
         (operand == 1 && has(*node_, RecordFlag::scalar_rhs));
}

const TapeEdge& VjpNode::edge(int operand) const noexcept {
  const int input = has(*node_, RecordFlag::scalar_lhs) ? operand - 1 : operand;
  HEARTH_ASSERT(input >= 0 && input < operand_count(), "no such operand");
  return tape_->edges_[node_->first_edge + static_cast<std::size_t>(input)];
}

bool VjpNode::is_permuted(int operand) const noexcept {
  const std::uint32_t producer = edge(operand).node;
  return producer != detail::Tape::kNoNode &&
         tape_->nodes_[producer].leaf == detail::Tape::kNoNode &&
         tape_->nodes_[producer].kind == OpKind::permute;
}

bool VjpNode::needs(int operand) const noexcept {
  return !is_number(operand) && edge(operand).node != detail::Tape::kNoNode;
}

std::span<const std::byte> VjpNode::attribute_bytes() const noexcept {
  return std::span(tape_->attribute_bytes_)
      .subspan(node_->first_attribute_byte, node_->attribute_size_bytes);
}

const Device& VjpNode::home() const noexcept {
  return tape_->homes_[attributes<std::uint32_t>()];
}

Tensor& VjpNode::saved_operand(int operand) const {
  HEARTH_ASSERT((node_->saved_operands >> operand & 1) != 0, "the row does not save this operand");
  return saved(node_->first_saved + rank_of(node_->saved_operands, operand));
}

Tensor& VjpNode::saved_output(int output) const {
  HEARTH_ASSERT((node_->saved_outputs >> output & 1) != 0, "the row does not save this output");
  const auto operands = static_cast<std::size_t>(std::popcount(node_->saved_operands));
  return saved(node_->first_saved + operands + rank_of(node_->saved_outputs, output));
}

Tensor& VjpNode::saved(std::size_t place) const {
  Tensor& tensor = tape_->saved_[place];
  if (tensor.is_valid()) [[likely]] {
    return tensor;
  }
  if (tape_->budget_ == nullptr) {
    return tape_->traffic_->restored(place);
  }
  tape_->budget_->restore(place);
  return tensor;
}

Arg VjpNode::operand(int operand) const {
  return is_number(operand) ? at(number()) : at(std::as_const(saved_operand(operand)));
}

Arg VjpNode::last_operand(int operand) const {
  return is_number(operand) ? at(number()) : at(std::move(saved_operand(operand)));
}

void VjpNode::give(int operand, Tensor gradient) const {
  const TapeEdge& to = edge(operand);
  tape_->accumulate(to.node, sum_to(std::move(gradient), to.layout->shape, location()), location());
}

void VjpNode::give_part(int operand, int axis, const SliceAttributes& cut, Tensor gradient) const {
  const TapeEdge& to = edge(operand);
  tape_->accumulate_part({to.node, axis, std::move(gradient), to.layout->shape, cut, location()});
}

}  // namespace hearth
