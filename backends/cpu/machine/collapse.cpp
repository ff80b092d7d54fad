#include "collapse.hpp"

namespace hearth::cpu {

template <std::size_t most_operands>
BasicPlace<most_operands>::BasicPlace(const hearth::detail::MergedAxes<most_operands>& of,
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

template struct BasicPlace<Collapsed::kMostOperands>;
template struct BasicPlace<TileSpace::kMostOperands>;

}  // namespace hearth::cpu
