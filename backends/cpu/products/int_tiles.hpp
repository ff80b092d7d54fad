// The innermost loops of products of i8: register tiles, packing, thin products. Built once per
// instruction set. Sums are exact in i32, so results have the same bits everywhere. Operands are
// packed into words of 32 bits: four elements, or two widened to 16 bits, in the form that the
// instruction set multiplies faster. Threads: any; pure functions on memory that the caller owns.
// Invariant: nothing outside the stated rows and columns is written.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// One register tile: c[i][j] = start + Σ_g a(i, g)·b(j, g) for i < rows and j < columns, where ·
/// sums the products of two words' elements. a(i, g) = a[g·a_step + i], b(j, g) = b[g·width + j],
/// where width is that of the panel.
struct IntTile {
  const std::uint32_t* a = nullptr;
  std::int64_t a_step = 0;
  const std::uint32_t* b = nullptr;
  std::int64_t group_count = 0;  ///< Words along the depth.
  std::int32_t* c = nullptr;
  std::int64_t c_step = 0;
  const std::int32_t* row_start = nullptr;  ///< Start of row i; nullptr: the values in c.
  int rows = 0;                             ///< 1 … max_rows
  int columns = 0;                          ///< 1 … panel_columns
};

/// Panels for IntTile, each `width` items wide: with i = p·width + r, word g of item i goes to
/// to[p·panel_step + g·width + r]. Beyond the depth, elements are 0.
struct IntPack {
  const std::int8_t* from = nullptr;  ///< Element k of item i: from[i·item_step + k·depth_step].
  std::int64_t item_step = 0;
  std::int64_t depth_step = 0;
  std::int64_t depth = 0;
  std::int64_t items = 0;
  std::int64_t width = 0;
  std::int64_t panel_step = 0;
  std::uint32_t* to = nullptr;
};

/// A few rows times a matrix in place: y[r·y_row + j·y_column] = Σ_k x[r][k]·w[j][k] for r < rows ≤
/// kMaxIntThinRows.
struct IntThin {
  const std::int8_t* x = nullptr;  ///< Contiguous rows.
  std::int64_t x_step = 0;
  const std::int8_t* w = nullptr;
  std::int64_t w_step = 0;
  std::int32_t* y = nullptr;
  std::int64_t y_row = 0;
  std::int64_t y_column = 0;
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  int rows = 0;
};
inline constexpr int kMaxIntThinRows = 4;

struct IntTileKernels {
  int max_rows;
  int panel_columns;
  int word_elements;  ///< 4 or 2.
  void (*multiply)(const IntTile& tile);
  void (*pack_a)(const IntPack& pack);
  void (*pack_b)(const IntPack& pack);
  /// Computes the starts of rows that correct an offset in the packed b.
  void (*row_starts)(const IntPack& pack, std::int32_t* starts);
  void (*thin)(const IntThin& thin);
};

HEARTH_CPU_ISA_TABLE(IntTileKernels, int_tiles);
#if defined(__x86_64__) && !defined(HEARTH_CPU_ONE_LEVEL)
namespace avx512 {
/// Loops for processors that sum four products of bytes at once (AVX512_VNNI).
extern const IntTileKernels int_byte_tiles_table;
}  // namespace avx512
#endif

/// Returns the fastest loops that this machine has at the level.
[[nodiscard]] const IntTileKernels& int_tile_kernels(IsaLevel isa) noexcept;

}  // namespace hearth::cpu
