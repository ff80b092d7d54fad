#include "collapse.hpp"

#include <algorithm>

namespace hearth::cpu {

template <std::size_t most_operands>
BasicCollapsed<most_operands>::BasicCollapsed(const Shape& shape,
                                              std::span<const Strides> strides) noexcept
    : operand_count(strides.size()) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto from = static_cast<std::size_t>(axis);
    if (shape[axis] == 1) {
      continue;
    }
    bool merges = rank > 0;
    const std::size_t last = static_cast<std::size_t>(rank) - 1;
    for (std::size_t i = 0; merges && i < operand_count; ++i) {
      merges = stride[i][last] == strides[i][from] * shape[axis];
    }
    const std::size_t to = merges ? last : static_cast<std::size_t>(rank);
    size[to] = merges ? size[to] * shape[axis] : shape[axis];
    for (std::size_t i = 0; i < operand_count; ++i) {
      stride[i][to] = strides[i][from];
    }
    rank += merges ? 0 : 1;
  }
  if (rank == 0) {
    rank = 1;
    size[0] = 1;
    for (std::size_t i = 0; i < operand_count; ++i) {
      stride[i][0] = 1;
    }
  }
}

template <std::size_t most_operands>
bool BasicCollapsed<most_operands>::is_linear(std::size_t operand) const noexcept {
  std::int64_t expected = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (stride[operand][i] != expected) {
      return false;
    }
    expected *= size[i];
  }
  return true;
}

template <std::size_t most_operands>
bool BasicCollapsed<most_operands>::repeats(std::size_t operand) const noexcept {
  for (int axis = 0; axis < rank - 1; ++axis) {
    if (stride[operand][static_cast<std::size_t>(axis)] != 0) {
      return false;
    }
  }
  return true;
}

template <std::size_t most_operands>
BasicPlace<most_operands>::BasicPlace(const BasicCollapsed<most_operands>& of,
                                      std::int64_t row) noexcept
    : space_(&of) {
  for (int axis = of.rank - 2; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    index_[i] = row % of.size[i];
    row /= of.size[i];
    for (std::size_t operand = 0; operand < of.operand_count; ++operand) {
      offset[operand] += index_[i] * of.stride[operand][i];
    }
  }
}

template <std::size_t most_operands>
void BasicPlace<most_operands>::advance() noexcept {
  for (int axis = space_->rank - 2; axis >= 0; --axis) {
    const auto i = static_cast<std::size_t>(axis);
    const bool is_last = ++index_[i] == space_->size[i];
    const std::int64_t steps = is_last ? 1 - space_->size[i] : 1;
    for (std::size_t operand = 0; operand < space_->operand_count; ++operand) {
      offset[operand] += steps * space_->stride[operand][i];
    }
    if (!is_last) {
      return;
    }
    index_[i] = 0;
  }
}

template struct BasicCollapsed<4>;
template struct BasicPlace<4>;
template struct BasicCollapsed<kMostTileOperands>;
template struct BasicPlace<kMostTileOperands>;

}  // namespace hearth::cpu
