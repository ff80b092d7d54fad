// The index space of an op, with neighbouring axes merged wherever all operands allow it, and
// places in it. Private to backends/cpu. Values. Threads: any. Invariants: (1) row-major order of
// the merged axes is that of the shape; (2) no axis has size 1, but a space of one element has rank
// 1, size 1 and strides 1.
#pragma once

#include <hearth/runtime/base/shape.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::cpu {

/// A space of up to `most_operands` operands: 4 for kernels, to keep it small, more for tile
/// programs.
template <std::size_t most_operands>
struct BasicCollapsed {
  static constexpr std::size_t kMaxOperands = most_operands;
  int rank = 0;
  std::size_t operand_count = 0;
  std::array<std::int64_t, kMaxRank> size{};
  std::array<Strides, kMaxOperands> stride{};  ///< In elements, by operand, then by axis.

  BasicCollapsed() = default;
  /// strides[i] are the strides of operand i over `shape`, which has at least one element.
  BasicCollapsed(const Shape& shape, std::span<const Strides> strides) noexcept;

  [[nodiscard]] std::int64_t inner_size() const noexcept {
    return size[static_cast<std::size_t>(rank) - 1];
  }
  [[nodiscard]] std::int64_t inner_stride(std::size_t operand) const noexcept {
    return stride[operand][static_cast<std::size_t>(rank) - 1];
  }
  /// Whether the operand is laid out like a contiguous tensor of the whole space.
  [[nodiscard]] bool is_linear(std::size_t operand) const noexcept;
  /// Whether all rows of the operand are the same memory.
  [[nodiscard]] bool repeats(std::size_t operand) const noexcept;
};

/// A row of the space (all axes but the innermost), and the start of each operand's row, in
/// elements.
template <std::size_t most_operands>
struct BasicPlace {
  BasicPlace(const BasicCollapsed<most_operands>& of, std::int64_t row) noexcept;
  /// Moves to the next row; from the last one, back to the first.
  void advance() noexcept;

  std::array<std::int64_t, most_operands> offset{};

 private:
  const BasicCollapsed<most_operands>* space_;
  std::array<std::int64_t, kMaxRank> index_{};
};

using Collapsed = BasicCollapsed<4>;
using Place = BasicPlace<4>;

inline constexpr std::size_t kMostTileOperands = 40;  // inputs and results of a TileProgram
using TileSpace = BasicCollapsed<kMostTileOperands>;
using TilePlace = BasicPlace<kMostTileOperands>;

}  // namespace hearth::cpu
