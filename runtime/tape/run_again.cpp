#include "run_again.hpp"

#include <hearth/runtime/tensor_access.hpp>
#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_facts.hpp>

#include <bit>
#include <vector>

namespace hearth {
namespace {

// The bit of an input in the mask of saved operands, which counts a number on the left.
unsigned operand_of(const TapeNode& node, std::uint32_t input) noexcept {
  const bool has_left_number =
      (node.flags & static_cast<std::uint16_t>(RecordFlag::scalar_lhs)) != 0;
  return input + (has_left_number ? 1U : 0U);
}

}  // namespace

Tensor untracked(const Tensor& tensor) {
  Tensor copy(tensor);
  detail::TensorAccess::set_node(copy, nullptr, 0);
  return copy;
}

bool is_view(OpKind kind) noexcept {
  return op_facts(kind).fusion == FusionClass::view;
}

bool can_run_again(const TapeNode& node) noexcept {
  if (node.leaf != detail::Tape::kNoNode || node.checkpoint != 0) {
    return false;
  }
  return is_view(node.kind) || (op_facts(node.kind).fusion == FusionClass::elementwise &&
                                has_expression(node.kind) && op_info(node.kind).outputs == 1);
}

bool saves_input(const TapeNode& node, std::uint32_t input) noexcept {
  return (node.saved_operands >> operand_of(node, input) & 1U) != 0;
}

std::size_t place_of_input(const TapeNode& node, std::uint32_t input) noexcept {
  const auto below = (1U << operand_of(node, input)) - 1U;
  return node.first_saved + static_cast<std::size_t>(std::popcount(node.saved_operands & below));
}

std::size_t end_of_saved(const TapeNode& node) noexcept {
  return std::size_t{node.first_saved} +
         static_cast<std::size_t>(std::popcount(node.saved_operands) +
                                  std::popcount(node.saved_outputs));
}

Tensor run_again(const TapeNode& node,
                 std::span<const std::byte> attributes,
                 std::span<const Tensor> inputs,
                 DType dtype,
                 const Shape& shape) {
  std::vector<Arg> args;
  args.reserve(inputs.size());
  for (const Tensor& input : inputs) {
    args.emplace_back(input, node.location);
  }
  return detail::submit(
      {.kind = node.kind,
       .location = node.location,
       .inputs = args,
       .attributes = attributes.subspan(node.first_attribute_byte, node.attribute_size_bytes),
       .flags =
           static_cast<std::uint16_t>(node.flags | static_cast<unsigned>(RecordFlag::recomputes))},
      dtype,
      shape);
}

}  // namespace hearth
