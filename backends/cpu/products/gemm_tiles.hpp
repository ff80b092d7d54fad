// The innermost loops of contractions: register tiles, packing, thin products, transposition. Built
// once per instruction set. Threads: any; pure functions on memory that the caller owns.
// Invariants: (1) each element of a result is one sum in the order of k, for any rows and columns
// of the tile. So a cut of the result never changes bits. (2) Nothing outside the stated rows and
// columns is written.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <hearth/runtime/base/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// One register tile: c[i][j] = start[i][j] + Σ_k a(i, k)·b(k, j) for i < rows and j < columns.
/// a(i, k) = a[i + k·a_step], or a[i + a_offsets[k]], or, if a_row_step is not 1, a[i·a_row_step +
/// k]. b(k, j) = b[j + k·b_step], or b[j + b_offsets[k]]; not both by offsets. All of a panel's
/// columns of b are read, and must be readable, even when `columns` is fewer.
template <class T>
struct Tile {
  std::int64_t depth = 0;
  const T* a = nullptr;
  std::int64_t a_step = 0;
  const std::int64_t* a_offsets = nullptr;
  std::int64_t a_row_step = 1;
  const T* b = nullptr;
  std::int64_t b_step = 0;
  const std::int64_t* b_offsets = nullptr;
  T* c = nullptr;
  std::int64_t c_step = 0;
  const T* start = nullptr;  ///< start[i][j] = start[i·start_step + j]; nullptr: 0.
  std::int64_t start_step = 0;
  const T* row_start = nullptr;  ///< start[i][j] = row_start[i], when `start` is nullptr.
  int rows = 0;                  ///< 1 … max_rows
  int columns = 0;               ///< 1 … panel_columns
};

/// Panels for Tile, each `width` items wide. With i = p·width + r, to[p·panel_step + k·width + r] =
/// from[i·item_step + k·depth_step] for i < items. The last panel holds 0 beyond the last item.
struct Pack {
  const std::byte* from = nullptr;
  std::int64_t item_step = 0;
  std::int64_t depth_step = 0;
  std::int64_t depth = 0;
  std::int64_t items = 0;
  std::int64_t width = 0;
  std::int64_t panel_step = 0;
};

/// A few rows times a matrix: y[r][j] = start[j] + Σ_k x[r][k]·w(k, j) for r < rows ≤ kMaxThinRows;
/// ≤ kMaxDotRows in the dot form. A row's bits do not depend on the other rows. by_columns: w(k, j)
/// = w[j·w_step + k] (dot form); else w(k, j) = w[k·w_step + j] (axpy form).
template <class T>
struct Thin {
  const T* x = nullptr;
  std::int64_t x_step = 0;
  const std::byte* w = nullptr;
  std::int64_t w_step = 0;
  T* y = nullptr;
  std::int64_t y_step = 0;
  const T* start = nullptr;  ///< nullptr: 0.
  std::int64_t depth = 0;
  std::int64_t columns = 0;
  int rows = 0;
  bool backwards = false;  ///< Dot form: last column first. The bits are the same.
};
inline constexpr int kMaxThinRows = 8;
inline constexpr int kMaxDotRows = 16;

/// The loops for sums in T (f32 or f64). Operands of f32 sums may be stored as f32, f16 or bf16.
template <class T>
struct TileKernels {
  int max_rows;
  int panel_columns;
  /// Lanes of one vector; a tile of at most this number of columns costs half.
  int vector_columns;
  void (*multiply)(const Tile<T>& tile);
  void (*pack)(const Pack& pack, DType from, T* to);
  void (*thin_dot)(const Thin<T>& thin, DType w);
  void (*thin_axpy)(const Thin<T>& thin, DType w);
  /// to[j·to_step + i] = from[i·from_step + j]
  void (*transpose)(const T* from,
                    std::int64_t from_step,
                    T* to,
                    std::int64_t to_step,
                    std::int64_t rows,
                    std::int64_t columns);
  /// Convert consecutive elements: load from `dtype` to T, store from T to `dtype`.
  void (*load)(const std::byte* from, DType dtype, T* to, std::int64_t count);
  void (*store)(const T* from, std::byte* to, DType dtype, std::int64_t count);
};

HEARTH_CPU_ISA_TABLE(TileKernels<float>, float_tiles);
HEARTH_CPU_ISA_TABLE(TileKernels<double>, double_tiles);

/// The loops for an instruction set that this machine has. T: float or double.
template <class T>
[[nodiscard]] const TileKernels<T>& tile_kernels(IsaLevel isa) noexcept {
  if constexpr (sizeof(T) == sizeof(float)) {
    return float_tiles(isa);
  } else {
    return double_tiles(isa);
  }
}

}  // namespace hearth::cpu
