#include "strided.hpp"

#include <bit>
#include <utility>

namespace hearth::gpu {

// `size` and `stride` have one entry for each axis of the shape until merge().
template <std::size_t most_operands>
StridedSpace<most_operands>::StridedSpace(const Shape& of) noexcept {
  this->rank = of.rank();
  for (int axis = 0; axis < of.rank(); ++axis) {
    this->size[this->at(axis)] = of[axis];
  }
}

template <std::size_t most_operands>
void StridedSpace<most_operands>::add(const hearth::detail::Layout& layout) noexcept {
  Strides& own = this->stride[this->operand_count++];
  const int behind = this->rank - layout.shape.rank();
  for (int axis = 0; axis < this->rank; ++axis) {
    const std::size_t to = this->at(axis);
    const int from = axis - behind;
    own[to] = from < 0 || layout.shape[from] != this->size[to]
                  ? 0
                  : layout.strides[static_cast<std::size_t>(from)];
  }
}

// In place: append() writes no axis behind the one that it reads.
template <std::size_t most_operands>
int StridedSpace<most_operands>::merge(int pinned) noexcept {
  const int axes = std::exchange(this->rank, 0);
  int before = 0;
  for (int axis = 0; axis < axes; ++axis) {
    const std::size_t from = this->at(axis);
    before = axis == pinned ? this->rank : before;
    this->append(
        this->size[from],
        [&](std::size_t i) { return this->stride[i][from]; },
        axis < pinned ? 0 : before);
  }
  before = pinned >= axes ? this->rank : before;
  this->pad(1, 0);
  return before;
}

template struct StridedSpace<4>;
template struct StridedSpace<16>;

// With s = ceil(log2 d) and m = floor(2^32·(2^s - d)/d) + 1, (mulhi(n, m) + n) >> s is n / d. For n
// below 2^31 the sum fits in 32 bits.
// Paper: Granlund, Montgomery, Division by invariant integers using multiplication, PLDI'94.
Divisor::Divisor(std::int64_t size) noexcept {
  const auto divisor = static_cast<std::uint64_t>(size);
  shift = size <= 1 ? 0U : static_cast<std::uint32_t>(std::bit_width(divisor - 1));
  const std::uint64_t rest = (std::uint64_t{1} << shift) - divisor;
  factor = static_cast<std::uint32_t>((rest << 32U) / divisor + 1);
}

std::string_view glsl_divide() noexcept {
  return R"(
FN uint divide(uint n, uint factor, uint shift) {
  uint high;
  uint low;
  umulExtended(n, factor, high, low);
  return (high + n) >> shift;
}
)";
}

}  // namespace hearth::gpu
