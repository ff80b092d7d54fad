// Matrix products of the CPU backend: packs both operands, cuts the result into blocks by size,
// runs register tiles. Threads: owner only; forks in the arena that it is given, if any. Invariant:
// an element of the result is one sum in the order of k, cut at multiples that depend on k alone:
// equal bits whatever the other sizes, strides and cores.
#pragma once

#include "gemm_tiles.hpp"
#include "kernel_table.hpp"

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
  Constant* constant = nullptr;  ///< Where its packed form may be kept.
};

/// Memory beside a product's result that is read or written for its blocks: an element lies at
/// row·row_step + column·column_step bytes.
struct BesideResult {
  const std::byte* data = nullptr;
  std::int64_t row_step = 0;
  std::int64_t column_step = 0;
  bool is_written = false;
};

/// Who works on a product's elements as soon as they are final: called with blocks that cover the
/// result once, by the threads that made them.
struct BlockSink {
  using Done = void (*)(const void* context,
                        std::int64_t row,
                        std::int64_t row_count,
                        std::int64_t column,
                        std::int64_t column_count);
  Done done = nullptr;  ///< nullptr: nobody.
  const void* context = nullptr;
  std::span<const BesideResult> beside = {};
  std::int64_t first_row = 0;
  std::int64_t first_column = 0;

  /// The same for a part of the product that begins there.
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

/// Memory that rows are made of, so many bytes of it for each, one row's behind the other's.
struct RowOrigin {
  const std::byte* data = nullptr;
  std::int64_t row_bytes = 0;
};

/// Who makes rows of a product's left side as they are needed, in place of memory where they lie:
/// each row once, on any thread.
struct MadeRows {
  /// Rows [begin, end), one behind the other from `to` on.
  using Make = void (*)(
      const void* context, std::byte* memory, std::byte* to, std::int64_t begin, std::int64_t end);
  Make make = nullptr;  ///< nullptr: they lie in memory.
  const void* context = nullptr;
  std::int64_t memory_bytes = 0;  ///< That each thread needs for it.
  std::int64_t threads = 1;       ///< At most so many run at a time.
  std::int64_t grain = 1;         ///< Rows worth a fork.
  std::int64_t first = 0;
  std::span<const RowOrigin> origins = {};  ///< To be asked for before rows are made.

  [[nodiscard]] bool is_there() const noexcept { return make != nullptr; }
  /// The same for a part of the product that begins at that row.
  [[nodiscard]] MadeRows at(std::int64_t row) const noexcept {
    MadeRows part = *this;
    part.first += row;
    return part;
  }
  void run(std::byte* memory, std::byte* to, std::int64_t begin, std::int64_t end) const {
    make(context, memory, to, first + begin, first + end);
  }
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
  MadeRows rows = {};  ///< Of a, which then has no bytes, and no gaps.
};

/// Whether run_gemm() comes to each row of a product of so many columns and such a depth once, so
/// that another call may make it then.
[[nodiscard]] bool comes_to_rows_once(std::int64_t n, std::int64_t k) noexcept;

/// Bytes of scratch that run_gemm needs.
template <class T>
[[nodiscard]] std::int64_t gemm_scratch_bytes(const Gemm<T>& gemm,
                                              const TileKernels<T>& kernels) noexcept;

/// Runs the product, whose rows may be made if comes_to_rows_once(); arena == nullptr: on this
/// thread alone, which keeps no packed operand.
template <class T>
void run_gemm(const Gemm<T>& gemm, const TileKernels<T>& kernels, std::byte* scratch, Arena* arena);

/// Up to so many columns of a result, the left side is read where it lies, along its rows or along
/// its depth. With more of them a packed copy pays: rows some power of two apart share banks of the
/// first-level cache ([2048, 128]·[128, 384]: 1.08 ms packed, 1.30 read).
template <class T>
[[nodiscard]] constexpr std::int64_t most_read_columns(const TileKernels<T>& kernels) noexcept {
  return 4 * kernels.panel_columns;
}

/// How many equal parts a piece of work of so many flops is cut into: each worth waking a core for.
[[nodiscard]] std::int64_t part_count(double flops) noexcept;

/// A sum is cut into blocks of at most so many products, as equal as can be, each added to the
/// last: a panel of so many rows stays in the first-level cache while others pass by.
inline constexpr std::int64_t kSumDepth = 192;

/// Blocks that are added to one another in the sum's own type. A longer sum is cut into parts of so
/// many blocks, which are joined in f64.
inline constexpr std::int64_t kMostBlocks = 256;
inline constexpr std::int64_t kMostDepth = kMostBlocks * kSumDepth;

/// The largest of as few nearly equal parts as there can be, of at most `most` each; 1 of nothing.
[[nodiscard]] constexpr std::int64_t even_part(std::int64_t size, std::int64_t most) noexcept {
  const std::int64_t count = (size + most - 1) / most;
  return size == 0 ? 1 : (size + count - 1) / count;
}

/// Rounds a size in bytes up to whole cache lines.
[[nodiscard]] constexpr std::int64_t whole_lines(std::int64_t size_bytes) noexcept {
  return (size_bytes + 63) / 64 * 64;
}

/// parallel_for in the arena, or the same ranges on this thread when there is none.
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
