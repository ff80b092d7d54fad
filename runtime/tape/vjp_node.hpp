// VjpNode: a VJP function's view of one recorded op: the needed gradients, the saved values, and
// the targets of the results. Private to runtime. Operands are numbered as the op names them (lhs
// 0, rhs 1, ...), even if one of them is a number and so no input.
// Threads: the tape's owner.
#pragma once

#include <cstring>

#include <hearth/runtime/ops.hpp>

#include "tape.hpp"

namespace hearth {

class VjpNode {
 public:
  VjpNode(detail::Tape& tape, const TapeNode& node) noexcept : tape_(&tape), node_(&node) {}

  [[nodiscard]] OpKind kind() const noexcept { return node_->kind; }
  /// Returns whether the gradient of this operand is needed.
  [[nodiscard]] bool needs(int operand) const noexcept;
  [[nodiscard]] bool is_number(int operand) const noexcept;
  [[nodiscard]] int operand_count() const noexcept { return static_cast<int>(node_->edge_count); }
  [[nodiscard]] const Shape& shape(int operand) const noexcept {
    return edge(operand).layout->shape;
  }
  [[nodiscard]] DType dtype(int operand) const noexcept { return edge(operand).dtype; }
  /// Returns whether a permute made this operand. Its gradient then gets the view's layout, so that
  /// it is contiguous after the inverse permute.
  [[nodiscard]] bool is_permuted(int operand) const noexcept;
  /// The value of an operand that is a number.
  [[nodiscard]] double number() const noexcept { return attributes<ScalarAttributes>().real; }
  template <class Attributes>
  [[nodiscard]] Attributes attributes() const noexcept {
    Attributes out;
    HEARTH_ASSERT(node_->attribute_size_bytes == sizeof(out), "attributes of another kind");
    std::memcpy(&out, attribute_bytes().data(), sizeof(out));
    return out;
  }
  [[nodiscard]] std::span<const std::byte> attribute_bytes() const noexcept;
  /// The source device of a transfer.
  [[nodiscard]] const Device& home() const noexcept;
  [[nodiscard]] SourceLoc location() const noexcept { return node_->location; }
  /// The function that the program called.
  [[nodiscard]] CalledAs called() const noexcept { return called_as(node_->flags); }

  /// An operand of an emitted op, with the line of the forward op's call.
  [[nodiscard]] Arg at(const Tensor& tensor) const noexcept { return Arg(tensor, node_->location); }
  [[nodiscard]] Arg at(Tensor&& tensor) const noexcept {
    return Arg(std::move(tensor), node_->location);
  }
  [[nodiscard]] Arg at(double number) const noexcept { return Arg(number, node_->location); }
  /// A saved operand, or its number; the row's masks must include it.
  [[nodiscard]] Arg operand(int operand) const;
  /// The saved operand for its last use, so that its memory can be reused.
  [[nodiscard]] Arg last_operand(int operand) const;
  [[nodiscard]] Arg output(int output = 0) const { return at(std::as_const(saved_output(output))); }
  [[nodiscard]] Arg last_output(int output = 0) const {
    return at(std::move(saved_output(output)));
  }

  /// Adds to the gradient of a needed operand; sums over the axes along which it was broadcast.
  void give(int operand, Tensor gradient) const;

  /// Adds to the gradient of a part of the operand, which a slice along one axis took.
  void give_part(int operand, int axis, const SliceAttributes& cut, Tensor gradient) const;

 private:
  [[nodiscard]] const TapeEdge& edge(int operand) const noexcept;
  [[nodiscard]] Tensor& saved_operand(int operand) const;
  [[nodiscard]] Tensor& saved_output(int output) const;
  /// The saved tensor, recomputed if the tape has dropped it.
  [[nodiscard]] Tensor& saved(std::size_t place) const;

  detail::Tape* tape_;
  const TapeNode* node_;
};

}  // namespace hearth
