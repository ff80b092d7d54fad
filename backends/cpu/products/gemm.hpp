// Matrix products of the CPU backend: packs both operands, cuts the result into blocks by size,
// runs register tiles. Threads: owner only; forks in the given arena, if any. Invariant: an element
// of the result is one sum in the order of k, cut at multiples that depend on k alone. So its bits
// depend on no other size, stride or number of cores.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"
#include "gemm_tiles.hpp"

#include <hearth/backends/constant.hpp>
#include <hearth/runtime/base/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::cpu {

/// A matrix with any strides, in elements.
struct GemmOperand {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
  Constant* constant = nullptr;  ///< Set if the packed form may be cached.
};

/// Operand beside a product's result, read or written for its blocks: an element lies at
/// row·row_step + column·column_step bytes.
struct BesideResult {
  const std::byte* data = nullptr;
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
  bool is_written = false;
};

/// Epilogue callback. Receives each finished block of the result exactly once, on the thread that
/// computed it.
struct BlockSink {
  using Done = void (*)(const void* context,
                        std::int64_t row,
                        std::int64_t row_count,
                        std::int64_t column,
                        std::int64_t column_count);
  Done done = nullptr;  ///< nullptr: no callback.
  const void* context = nullptr;
  std::span<const BesideResult> beside = {};
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;

  /// Returns the callback for a part of the product that begins at (row, column).
  [[nodiscard]] BlockSink at(std::int64_t row, std::int64_t column) const noexcept {
    return {done, context, beside, first_row + row, first_column + column};
  }
  void take(std::int64_t row,
            std::int64_t row_count,
            std::int64_t column,
            std::int64_t column_count) const {
    if (done != nullptr) {
      done(context, first_row + row, row_count, first_column + column, column_count);
    }
  }
};

/// Memory from which rows are computed: row_bytes for each row, contiguous.
struct RowOrigin {
  const std::byte* data = nullptr;
  std::int64_t row_bytes = 0;
};

/// Producer of rows of a product's left side, in place of memory: computes each row once, on any
/// thread.
struct ProducedRows {
  /// Computes rows [begin, end), contiguously from `to` on.
  using Make = void (*)(
      const void* context, std::byte* memory, std::byte* to, std::int64_t begin, std::int64_t end);
  Make make = nullptr;  ///< nullptr: the rows are in memory.
  const void* context = nullptr;
  std::int64_t memory_bytes = 0;  ///< Buffer size for each thread.
  std::int64_t threads = 1;       ///< Most threads that run at a time.
  std::int64_t grain = 1;         ///< Rows worth a fork.
  std::int64_t first = 0;
  std::span<const RowOrigin> origins = {};  ///< Prefetched before rows are computed.

  [[nodiscard]] bool is_there() const noexcept { return make != nullptr; }
  /// Returns the producer for a part of the product that begins at that row.
  [[nodiscard]] ProducedRows at(std::int64_t row) const noexcept {
    ProducedRows part = *this;
    part.first += row;
    return part;
  }
  void run(std::byte* memory, std::byte* to, std::int64_t begin, std::int64_t end) const {
    make(context, memory, to, first + begin, first + end);
  }
};

/// How the tiles of a packed product read its left side.
enum class LeftAccess : std::uint8_t {
  by_size,   ///< One of those below, by the plan.
  in_place,  ///< Requires T elements, contiguous along the rows or along the depth.
  packed,
};
/// How the tiles read the right side, and what a task computes.
enum class RightAccess : std::uint8_t {
  by_size,  ///< One of those below, by the plan.
  /// Without a copy. Requires T elements, contiguous along the rows, whole panels, and no constant.
  in_place,
  packed_in_task,  ///< A task packs the columns that it computes, for all rows.
  packed_rows,     ///< Packed before; a task computes whole rows.
  packed_blocks,   ///< Packed before; a task computes a block of rows and columns.
};
/// Choice among ways to compute a packed product. No choice changes a bit.
struct GemmChoice {
  LeftAccess left = LeftAccess::by_size;
  RightAccess right = RightAccess::by_size;

  friend bool operator==(const GemmChoice&, const GemmChoice&) = default;
};

/// c[m, n] = a[m, k]·b[k, n] + (accumulate ? c : bias[n] or 0). Sums are kept in T; for T = float
/// the operands may be 16 bits wide. Callers cut a depth above kMostDepth into parts.
template <class T>
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  GemmOperand a;
  GemmOperand b;
  T* c = nullptr;
  std::int64_t c_step = 0;
  const T* bias = nullptr;
  bool accumulate = false;
  BlockSink sink = {};
  ProducedRows rows = {};  ///< Producer of a, which then has no bytes and no gaps.
  GemmChoice choice = {};  ///< A choice that the product does not allow counts as by_size.
};

/// Returns what run_gemm() does for the first piece of the product.
template <class T>
[[nodiscard]] GemmChoice planned_choice(const Gemm<T>& gemm,
                                        const TileKernels<T>& kernels) noexcept;

/// Whether run_gemm() visits each row of a product of n columns and depth k once, so that a
/// prologue can compute it then.
[[nodiscard]] bool reads_rows_once(std::int64_t n, std::int64_t k) noexcept;

/// Returns the scratch bytes of run_gemm().
template <class T>
[[nodiscard]] std::int64_t gemm_scratch_bytes(const Gemm<T>& gemm,
                                              const TileKernels<T>& kernels) noexcept;

/// Runs the product. Its rows may come from a prologue if reads_rows_once(). arena == nullptr:
/// runs on this thread alone, and caches no packed operand.
template <class T>
void run_gemm(const Gemm<T>& gemm, const TileKernels<T>& kernels, std::byte* scratch, Arena* arena);

/// With at most this number of columns, the left side is read in place, along its rows or its
/// depth. With more columns a packed copy pays: rows a power of two apart share banks of the
/// first-level cache ([2048, 128]·[128, 384]: 1.08 ms packed, 1.30 in place).
template <class T>
[[nodiscard]] constexpr std::int64_t most_read_columns(const TileKernels<T>& kernels) noexcept {
  return 4 * kernels.panel_columns;
}

/// Returns the number of equal parts of work of `flops` flops, each large enough to wake a core
/// for.
[[nodiscard]] std::int64_t part_count(double flops) noexcept;

/// A sum is cut into nearly equal blocks of at most this number of products, added in order. A
/// panel of that depth stays in the first-level cache while others stream past.
inline constexpr std::int64_t kSumDepth = 192;

/// Number of blocks that are added in the sum's own type. A longer sum is cut into parts of this
/// number of blocks, which are joined in f64.
inline constexpr std::int64_t kMostBlocks = 256;
inline constexpr std::int64_t kMostDepth = kMostBlocks * kSumDepth;

/// Returns the size of the largest part when `size` is cut into the fewest nearly equal parts of at
/// most `most`; 1 for an empty size.
[[nodiscard]] constexpr std::int64_t even_part(std::int64_t size, std::int64_t most) noexcept {
  const std::int64_t count = (size + most - 1) / most;
  return size == 0 ? 1 : (size + count - 1) / count;
}

/// Rounds a size in bytes up to whole cache lines.
[[nodiscard]] constexpr std::int64_t whole_lines(std::int64_t size_bytes) noexcept {
  return (size_bytes + 63) / 64 * 64;
}

/// Runs parallel_for in the arena, or the same ranges on this thread if there is no arena.
template <class Body>
void for_ranges(Arena* arena, std::int64_t count, std::int64_t grain, const Body& body) {
  if (arena != nullptr) {
    arena->parallel_for(count, grain, body);
    return;
  }
  for (std::int64_t begin = 0; begin < count; begin += grain) {
    body(begin, begin + grain < count ? begin + grain : count);
  }
}

}  // namespace hearth::cpu
