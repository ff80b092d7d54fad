// Index spaces for shaders: the axes of a call, with neighbours merged where all operands allow it,
// and numbers that divide by multiplying. Values on the stack. Threads: any.
// Invariants, from merge() on: those of MergedAxes, and a space of one element has rank 1, size 1
// and strides 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <hearth/backends/kernel.hpp>
#include <hearth/backends/merged_axes.hpp>
#include <hearth/runtime/base/shape.hpp>

#include "backends/gpu/encoder/parameter_block.hpp"

namespace hearth::gpu {

/// The space of up to `most_operands` operands.
template <std::size_t most_operands>
struct StridedSpace : hearth::detail::MergedAxes<most_operands> {
  /// A space without operands; add() comes next, then merge().
  explicit StridedSpace(const Shape& of) noexcept;
  /// Adds an operand that broadcasts to the shape.
  void add(const TensorView& view) noexcept { add(*view.layout); }
  void add(const hearth::detail::Layout& layout) noexcept;
  /// Merges axes. Requires that the shape has an element. The shape's axes from `pinned` on stay
  /// apart from those before it. Returns the rank of the part before `pinned`.
  int merge(int pinned = 0) noexcept;
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
