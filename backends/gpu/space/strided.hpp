// Index spaces for shaders: the axes of a call, with neighbours merged where all operands allow it,
// and numbers that divide by multiplying. Values on the stack. Threads: any.
// Invariants: (1) the merged axes keep the shape's row-major order; (2) no axis has size 1, but a
// space of one element has rank 1 and size 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <hearth/backends/kernel.hpp>
#include <hearth/runtime/base/shape.hpp>

#include "backends/gpu/encoder/parameter_block.hpp"

namespace hearth::gpu {

/// The space of up to `most_operands` operands.
template <std::size_t most_operands>
struct StridedSpace {
  int rank = 0;
  std::size_t operand_count = 0;
  std::array<std::int64_t, kMaxRank> size;    ///< The first `rank` have a value.
  std::array<Strides, most_operands> stride;  ///< In elements, by operand, then by axis.

  /// A space without operands; add() comes next, then merge().
  explicit StridedSpace(const Shape& of) noexcept;
  /// Adds an operand that broadcasts to the shape.
  void add(const TensorView& view) noexcept { add(*view.layout); }
  void add(const hearth::detail::Layout& layout) noexcept;
  /// Merges axes. Requires that the shape has an element. The shape's axes from `pinned` on stay
  /// apart from those before it. Returns the rank of the part before `pinned`.
  int merge(int pinned = 0) noexcept;

  [[nodiscard]] std::int64_t inner_size() const noexcept {
    return size[static_cast<std::size_t>(rank) - 1];
  }
  [[nodiscard]] std::int64_t inner_stride(std::size_t operand) const noexcept {
    return stride[operand][static_cast<std::size_t>(rank) - 1];
  }
  /// True if axes begin … end - 1 of the operand lie in memory as those of a contiguous tensor.
  [[nodiscard]] bool is_linear(std::size_t operand, int begin, int end) const noexcept;
  [[nodiscard]] bool is_linear(std::size_t operand) const noexcept {
    return is_linear(operand, 0, rank);
  }
  /// True if all elements along these axes are the same element.
  [[nodiscard]] bool repeats(std::size_t operand, int begin, int end) const noexcept;
  [[nodiscard]] bool repeats(std::size_t operand) const noexcept {
    return repeats(operand, 0, rank);
  }
  /// The largest distance, in elements, from the operand's first element.
  [[nodiscard]] std::int64_t reach(std::size_t operand) const noexcept;
};

extern template struct StridedSpace<4>;
extern template struct StridedSpace<16>;

/// Factor and shift of the shader function divide(), which divides numbers below 2^31 by `size`,
/// also below 2^31.
struct Divisor {
  std::uint32_t factor;
  std::uint32_t shift;

  explicit Divisor(std::int64_t size) noexcept;
};
/// uint divide(uint n, uint factor, uint shift)
[[nodiscard]] std::string_view glsl_divide() noexcept;

}  // namespace hearth::gpu
