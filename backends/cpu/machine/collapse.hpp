// The index space of an op, with neighbouring axes merged wherever all operands allow it, and
// places in it. Private to backends/cpu. Values. Threads: any. Invariants: those of MergedAxes, and
// a space of one element has rank 1, size 1 and strides 1.
#pragma once

#include <hearth/backends/merged_axes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// The space of a kernel, whose few operands keep it small.
using Collapsed = hearth::detail::MergedAxes<4>;
inline constexpr std::size_t kMostTileOperands = 40;  // inputs and results of a TileProgram
using TileSpace = hearth::detail::MergedAxes<kMostTileOperands>;

/// A row of the space (all axes but the innermost), and the start of each operand's row, in
/// elements.
template <std::size_t most_operands>
struct BasicPlace {
  BasicPlace(const hearth::detail::MergedAxes<most_operands>& of, std::int64_t row) noexcept;
  /// Moves to the next row; from the last one, back to the first.
  void advance() noexcept;

  std::array<std::int64_t, most_operands> offset{};

 private:
  const hearth::detail::MergedAxes<most_operands>* space_;
  std::array<std::int64_t, kMaxRank> index_{};
};

using Place = BasicPlace<Collapsed::kMostOperands>;
using TilePlace = BasicPlace<TileSpace::kMostOperands>;

}  // namespace hearth::cpu
