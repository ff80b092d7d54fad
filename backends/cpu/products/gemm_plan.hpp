// The layout of one piece of a packed product and its cut into tasks: rows and columns in panels,
// depth in blocks, all nearly equal. Private to backends/cpu; a value. Invariant: the plan depends
// on sizes, strides and types alone, on the presence of an epilogue or prologue, and on the choice.
// No sum depends on it.
#pragma once

#include "gemm.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace hearth::cpu {

struct GemmPlan {
  /// Panels of b packed together: the prefetcher then follows long stretches of rows.
  static constexpr std::int64_t kPanelGroup = 4;
  static constexpr std::int64_t kTasksPerCore = 4;

  std::int64_t row_panels = 0;
  std::int64_t column_panels = 0;
  std::int64_t panel_rows = 0;
  std::int64_t panel_columns = 0;
  std::int64_t block_depth = 0;
  std::int64_t down = 1;
  std::int64_t across = 1;
  bool packs_in_task = false;  ///< A task packs its own b.
  bool reads_a = false;        ///< In place.
  bool reads_b = false;
  /// Panels of a that a task packs together; 0: all are packed before.
  std::int64_t chunk_panels = 0;
  /// Chunks run one after the other through the whole depth; else by block of depth.
  bool finishes_chunks = false;
  bool produces_chunks = false;  ///< A prologue computes rows of a for each chunk,
  bool produces_before = false;  ///< or all of them, packed or laid out before the tiles.

  /// Plans a piece of the product of this size.
  template <class T>
  GemmPlan(std::int64_t m,
           std::int64_t n,
           std::int64_t k,
           bool has_sink,
           const Gemm<T>& gemm,
           const TileKernels<T>& kernels) {
    const GemmOperand& a = gemm.a;
    const GemmOperand& b = gemm.b;
    panel_rows = even_part(m, kernels.max_rows);
    row_panels = parts(m, panel_rows);
    panel_columns = n <= kernels.vector_columns ? kernels.vector_columns : kernels.panel_columns;
    column_panels = parts(n, panel_columns);
    block_depth = even_part(k, kSumDepth);
    reads_a = gemm.choice.left != LeftAccess::packed && a.dtype == dtype_of<T> &&
              (gemm.choice.left == LeftAccess::in_place || n <= most_read_columns(kernels)) &&
              (a.column_step == 1 || a.row_step == 1);
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const std::int64_t count = part_count(flops);
    const bool has_producer = gemm.rows.is_there();
    const bool may_read_b = b.dtype == dtype_of<T> && b.column_step == 1 && b.constant == nullptr &&
                            n % panel_columns == 0;
    RightAccess right = gemm.choice.right;
    if (right == RightAccess::by_size || (right == RightAccess::in_place && !may_read_b)) {
      const bool is_short = k <= kShortDepth && m <= kFewRows && n <= kFewColumnsOfMore;
      right = m <= kFewRows && column_panels >= count && (may_read_b || !is_short)
                  ? (m <= kRowsOverPanels && may_read_b ? RightAccess::in_place
                                                        : RightAccess::packed_in_task)
              : n <= (has_sink || has_producer || is_short ? kFewColumnsOfMore : kFewColumns)
                  ? RightAccess::packed_rows
                  : RightAccess::packed_blocks;
    }
    reads_b = right == RightAccess::in_place;
    packs_in_task = reads_b || right == RightAccess::packed_in_task;
    if (packs_in_task) {
      across = std::min({count, kMaxPackingTasks, column_panels});
    } else if (right == RightAccess::packed_rows) {
      plan_rows(n, k, has_sink, count, static_cast<std::int64_t>(sizeof(T)));
      if (has_producer) {  // a row takes the whole depth at once, although all of b is read for it
        produces_chunks = finishes_chunks = true;
        const std::int64_t most = kMadeBytes / (panel_rows * k * size_bytes(a.dtype));
        chunk_panels = even_part(row_panels, std::clamp<std::int64_t>(most, 1, chunk_panels));
      }
    } else {
      const double ratio = static_cast<double>(n) / static_cast<double>(m);
      const auto wanted =
          static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count) * ratio)));
      across = std::clamp<std::int64_t>(wanted, 1, std::min(count, column_panels));
      down = std::clamp<std::int64_t>(parts(count, across), 1, row_panels);
    }
    produces_before = has_producer && !produces_chunks;
  }

  [[nodiscard]] GemmChoice choice() const noexcept {
    return {.left = reads_a ? LeftAccess::in_place : LeftAccess::packed,
            .right = reads_b             ? RightAccess::in_place
                     : packs_in_task     ? RightAccess::packed_in_task
                     : chunk_panels == 0 ? RightAccess::packed_blocks
                                         : RightAccess::packed_rows};
  }

  /// Elements of the packed a, or of a chunk for each task; if a is read in place, of its computed
  /// rows.
  [[nodiscard]] std::int64_t a_elements(std::int64_t k) const {
    if (reads_a) {
      return produces_before ? row_panels * panel_rows * k : 0;
    }
    return chunk_panels > 0 ? down * chunk_elements() : row_panels * panel_rows * k;
  }
  [[nodiscard]] std::int64_t chunk_elements() const {
    return chunk_panels * panel_rows * block_depth;
  }
  /// Elements of the packed b, or of each task's share.
  [[nodiscard]] std::int64_t b_elements(std::int64_t k) const {
    if (reads_b) {
      return 0;
    }
    return packs_in_task ? kPanelGroup * panel_columns * block_depth
                         : column_panels * panel_columns * k;
  }
  [[nodiscard]] std::int64_t b_copies() const { return packs_in_task ? across : 1; }
  /// Rows computed at once, to be packed or read.
  [[nodiscard]] std::int64_t produced_rows() const {
    return produces_chunks ? chunk_panels * panel_rows : panel_rows;
  }

  [[nodiscard]] static constexpr std::int64_t parts(std::int64_t size, std::int64_t most) {
    return (size + most - 1) / most;
  }

 private:
  // Up to this number of rows, a task packs its own b, into the second-level cache.
  static constexpr std::int64_t kFewRows = 256;
  static constexpr std::int64_t kMaxPackingTasks = 16;
  // Up to this number of columns, a task takes whole rows: it packs those of a by chunks, into the
  // second-level cache, where b stays. With an epilogue or a prologue, which run on whole rows, the
  // limit is higher.
  static constexpr std::int64_t kFewColumns = 512;
  static constexpr std::int64_t kFewColumnsOfMore = 1024;  // with an epilogue or prologue
  static constexpr std::int64_t kChunkBytes = 96 << 10;    // of packed rows
  // of results that wait for an epilogue
  static constexpr std::int64_t kChunkResultBytes = 128 << 10;
  static constexpr std::int64_t kMadeBytes = 128 << 10;  // of rows that a prologue computes
  static constexpr std::int64_t kNearBytes = 512 << 10;  // of b, read again for each chunk
  // Up to this depth, b is packed at once.
  static constexpr std::int64_t kShortDepth = 64;
  // Up to this number of rows, a panel of b is used a few times alone, and read in place.
  static constexpr std::int64_t kRowsOverPanels = 64;

  void plan_rows(std::int64_t n,
                 std::int64_t k,
                 bool has_sink,
                 std::int64_t count,
                 std::int64_t element_bytes) {
    const std::int64_t panel_bytes = panel_rows * block_depth * element_bytes;
    std::int64_t most = kChunkBytes / panel_bytes;
    if (has_sink) {
      most = std::min(most, kChunkResultBytes / (panel_rows * n * element_bytes));
    }
    chunk_panels = even_part(row_panels, std::clamp<std::int64_t>(most, 1, row_panels));
    finishes_chunks = column_panels * panel_columns * k * element_bytes <= kNearBytes;
    down = std::min(count, row_panels);
  }
};

}  // namespace hearth::cpu
