// The inner loops of reductions. Accumulators are 8 bytes wide for all elements: f64 for floats,
// i64 for integers, so f32 sums lose nothing between blocks. Private to backends/cpu. Threads: any;
// pure functions on the given memory.
#pragma once

#include "backends/cpu/elementwise/unary_loops.hpp"
#include "backends/cpu/machine/isa_table.hpp"

#include <hearth/runtime/base/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu {

/// Number of elements that are summed before they are added to the accumulator. Rounding errors
/// grow with the number of additions in a lane: 1024 elements are 16 in each of the 64 lanes of
/// f32.
inline constexpr std::int64_t kSumBlock = 1024;

/// An accumulator: f64 for float reductions, i64 for integer ones.
union Accumulator {
  double real;
  std::int64_t integer;
};
static_assert(sizeof(Accumulator) == 8);

/// Rows per call of a column loop.
inline constexpr std::int64_t kRowBatch = 8;

struct ReduceLoops {
  /// Joins `count` contiguous elements into one accumulator.
  using Row = void (*)(Accumulator* into, const void* in, std::int64_t count);
  /// Joins element c of each of `row_count` ≤ kRowBatch rows into accumulator c, c < count.
  using Columns = void (*)(Accumulator* into,
                           const void* const* rows,
                           std::int64_t row_count,
                           std::int64_t count);
  /// Returns the place of the first largest (smallest) element, or of the first NaN. count > 0.
  using Position = std::int64_t (*)(const void* in, std::int64_t count);
  /// Where row[c] beats best[c]: stores it there, and `place` in places[c].
  using Champions = void (*)(
      void* best, std::int64_t* places, const void* row, std::int64_t place, std::int64_t count);
  template <class Fn>
  using ByType = std::array<Fn, kComputeTypeCount>;

  ByType<Row> sum_row;
  ByType<Row> max_row;
  ByType<Row> min_row;
  ByType<Row> product_row;
  ByType<Columns> sum_columns;
  ByType<Columns> max_columns;
  ByType<Columns> min_columns;
  ByType<Columns> product_columns;
  ByType<Position> largest_position;
  ByType<Position> smallest_position;
  ByType<Champions> largest_champions;
  ByType<Champions> smallest_champions;

  template <class Fn>
  [[nodiscard]] static Fn at(const ByType<Fn>& loops, DType dtype) noexcept {
    return loops[static_cast<std::size_t>(compute_index(dtype))];
  }
};
HEARTH_CPU_ISA_TABLE(ReduceLoops, reduce_loops);

}  // namespace hearth::cpu
