#include "strided.hpp"

#include <bit>

namespace hearth::gpu {
namespace {

constexpr std::size_t at(int axis) noexcept {
  return static_cast<std::size_t>(axis);
}

}  // namespace

// `size` and `stride` have one entry for each axis of the shape until merge().
template <std::size_t most_operands>
StridedSpace<most_operands>::StridedSpace(const Shape& of) noexcept : rank(of.rank()) {
  for (int axis = 0; axis < rank; ++axis) {
    size[at(axis)] = of[axis];
  }
}

template <std::size_t most_operands>
void StridedSpace<most_operands>::add(const hearth::detail::Layout& layout) noexcept {
  Strides& own = stride[operand_count++];
  const int behind = rank - layout.shape.rank();
  for (int axis = 0; axis < rank; ++axis) {
    const int from = axis - behind;
    own[at(axis)] = from < 0 || layout.shape[from] != size[at(axis)]
                        ? 0
                        : layout.strides[static_cast<std::size_t>(from)];
  }
}

template <std::size_t most_operands>
int StridedSpace<most_operands>::merge(int pinned) noexcept {
  int merged = 0;
  int before = 0;
  for (int axis = 0; axis < rank; ++axis) {
    if (axis == pinned) {
      before = merged;
    }
    const std::int64_t length = size[at(axis)];
    if (length == 1) {
      continue;
    }
    bool joins = merged > (axis < pinned ? 0 : before);
    for (std::size_t i = 0; joins && i < operand_count; ++i) {
      joins = stride[i][at(merged - 1)] == stride[i][at(axis)] * length;
    }
    const int to = joins ? merged - 1 : merged;
    size[at(to)] = joins ? size[at(to)] * length : length;
    for (std::size_t i = 0; i < operand_count; ++i) {
      stride[i][at(to)] = stride[i][at(axis)];
    }
    merged += joins ? 0 : 1;
  }
  if (pinned >= rank) {
    before = merged;
  }
  if (merged == 0) {
    merged = 1;
    size[0] = 1;
    for (std::size_t i = 0; i < operand_count; ++i) {
      stride[i][0] = 0;
    }
  }
  rank = merged;
  return before;
}

template <std::size_t most_operands>
bool StridedSpace<most_operands>::is_linear(std::size_t operand,
                                            int begin,
                                            int end) const noexcept {
  std::int64_t expected = 1;
  for (int axis = end - 1; axis >= begin; --axis) {
    if (size[at(axis)] != 1 && stride[operand][at(axis)] != expected) {
      return false;
    }
    expected *= size[at(axis)];
  }
  return true;
}

template <std::size_t most_operands>
bool StridedSpace<most_operands>::repeats(std::size_t operand, int begin, int end) const noexcept {
  for (int axis = begin; axis < end; ++axis) {
    if (size[at(axis)] != 1 && stride[operand][at(axis)] != 0) {
      return false;
    }
  }
  return true;
}

template <std::size_t most_operands>
std::int64_t StridedSpace<most_operands>::reach(std::size_t operand) const noexcept {
  std::int64_t forward = 0;
  std::int64_t backward = 0;
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t way = (size[at(axis)] - 1) * stride[operand][at(axis)];
    forward += way > 0 ? way : 0;
    backward -= way < 0 ? way : 0;
  }
  return forward > backward ? forward : backward;
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
uint divide(uint n, uint factor, uint shift) {
  uint high;
  uint low;
  umulExtended(n, factor, high, low);
  return (high + n) >> shift;
}
)";
}

}  // namespace hearth::gpu
