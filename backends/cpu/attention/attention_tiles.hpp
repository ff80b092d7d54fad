// Tiled products inside a block of attention: the right side is packed once per block, and masked
// parts are skipped. Private to backends/cpu. Threads: any; pure functions on memory that the
// caller owns. Invariant: an element is one sum in the order of the depth, cut by the depth's size
// alone, as in gemm.
#pragma once

#include "backends/cpu/products/gemm.hpp"

#include <algorithm>
#include <cstdint>

namespace hearth::cpu {

/// A right side in panels of the tiles' width, each over the whole depth.
template <class T>
struct BlockPanels {
  std::int64_t depth = 0;
  std::int64_t columns = 0;

  [[nodiscard]] std::int64_t panel_step(const TileKernels<T>& kernels) const noexcept {
    return depth * kernels.panel_columns;
  }
  [[nodiscard]] std::int64_t elements(const TileKernels<T>& kernels) const noexcept {
    return (columns + kernels.panel_columns - 1) / kernels.panel_columns * panel_step(kernels);
  }
  void pack(const GemmOperand& from, const TileKernels<T>& kernels, T* to) const {
    kernels.pack({.from = from.data,
                  .item_step = from.column_step,
                  .depth_step = from.row_step,
                  .depth = depth,
                  .items = columns,
                  .width = kernels.panel_columns,
                  .panel_step = panel_step(kernels)},
                 from.dtype,
                 to);
  }
};

/// c(i, j) = Σ_k a(i, k)·b(k, j), optionally added to c. One of a's steps is 1.
template <class T>
struct BlockProduct {
  std::int64_t rows = 0;
  const T* a = nullptr;
  std::int64_t a_row_step = 1;
  std::int64_t a_depth_step = 1;
  const T* b = nullptr;
  BlockPanels<T> panels = {};
  T* c = nullptr;
  std::int64_t c_step = 0;
  bool accumulates = false;
};

/// The part of a product that some rows need: sums over [first, last) of the depth, for the first
/// `columns` columns.
struct BlockNeed {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t columns = 0;
};

/// Computes the parts that need(i, count) returns for rows [i, i + count). Other columns are not
/// written, nor is anything where the depth is empty.
template <class T, class Need>
void multiply_block(const BlockProduct<T>& product,
                    const TileKernels<T>& kernels,
                    const Need& need) {
  const std::int64_t height = even_part(product.rows, kernels.max_rows);
  const std::int64_t block = even_part(product.panels.depth, kSumDepth);
  const std::int64_t width = kernels.panel_columns;
  const T* panel = product.b;
  for (std::int64_t j = 0; j < product.panels.columns; j += width) {
    for (std::int64_t i = 0; i < product.rows; i += height) {
      Tile<T> tile;
      tile.rows = static_cast<int>(std::min(height, product.rows - i));
      const BlockNeed needed = need(i, tile.rows);
      const std::int64_t columns = std::min(needed.columns, product.panels.columns) - j;
      tile.columns = static_cast<int>(std::min(width, columns));
      tile.a_step = product.a_depth_step;
      tile.a_row_step = product.a_row_step;
      tile.b_step = width;
      tile.c = product.c + i * product.c_step + j;
      tile.c_step = product.c_step;
      tile.start = product.accumulates ? tile.c : nullptr;
      tile.start_step = product.c_step;
      for (std::int64_t k = needed.first; k < needed.last && columns > 0;) {
        const std::int64_t end = std::min((k / block + 1) * block, needed.last);
        tile.depth = end - k;
        tile.a = product.a + i * product.a_row_step + k * product.a_depth_step;
        tile.b = panel + k * width;
        kernels.multiply(tile);
        tile.start = tile.c;
        k = end;
      }
    }
    panel += product.panels.panel_step(kernels);
  }
}

}  // namespace hearth::cpu
