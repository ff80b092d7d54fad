// Index spaces for shaders: the axes of a call with neighbours merged wherever all operands allow
// it, and numbers that divide by multiplying. Values on the stack. Threads: any.
// Invariants: (1) row-major order of the merged axes is that of the shape; (2) no axis has size 1,
// but a space of one element has rank 1 and size 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/shape.hpp>

#include "parameter_block.hpp"

namespace hearth::vulkan {

/// The space of up to `most_operands` operands.
template <std::size_t most_operands>
struct StridedSpace {
  int rank = 0;
  std::size_t operand_count = 0;
  std::array<std::int64_t, kMaxRank> size;    ///< The first `rank` have a value.
  std::array<Strides, most_operands> stride;  ///< In elements, by operand, then by axis.

  /// The space of no operand; add() comes next, then merge().
  explicit StridedSpace(const Shape& of) noexcept;
  /// An operand that broadcasts to the shape.
  void add(const TensorView& view) noexcept { add(*view.layout); }
  void add(const hearth::detail::Layout& layout) noexcept;
  /// Merges axes. Requires that the shape has an element. Axes from `pinned` on, of the shape, stay
  /// apart from those before it; returns the rank of what lies before it.
  int merge(int pinned = 0) noexcept;

  [[nodiscard]] std::int64_t inner_size() const noexcept {
    return size[static_cast<std::size_t>(rank) - 1];
  }
  [[nodiscard]] std::int64_t inner_stride(std::size_t operand) const noexcept {
    return stride[operand][static_cast<std::size_t>(rank) - 1];
  }
  /// Whether axes begin … end - 1 of the operand lie in memory as a contiguous tensor's would.
  [[nodiscard]] bool is_linear(std::size_t operand, int begin, int end) const noexcept;
  [[nodiscard]] bool is_linear(std::size_t operand) const noexcept {
    return is_linear(operand, 0, rank);
  }
  /// Whether all elements along these axes are one and the same.
  [[nodiscard]] bool repeats(std::size_t operand, int begin, int end) const noexcept;
  [[nodiscard]] bool repeats(std::size_t operand) const noexcept {
    return repeats(operand, 0, rank);
  }
  /// The largest distance, in elements, of an element from the operand's first.
  [[nodiscard]] std::int64_t reach(std::size_t operand) const noexcept;
};

extern template struct StridedSpace<4>;
extern template struct StridedSpace<16>;

/// What the shader function divide() needs to divide numbers below 2^31 by `size`, which is below
/// 2^31 too: a factor and a shift.
struct Divisor {
  std::uint32_t factor;
  std::uint32_t shift;

  explicit Divisor(std::int64_t size) noexcept;
};
/// uint divide(uint n, uint factor, uint shift)
[[nodiscard]] std::string_view glsl_divide() noexcept;

}  // namespace hearth::vulkan
