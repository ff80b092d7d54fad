// The vector loops of pooling for the most common window, 2 × 2 with stride 2 and no padding, in
// f32. Built once per instruction set. Threads: any; pure functions on memory that the caller owns.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <cstdint>

namespace hearth::cpu {

/// One output row of a plane: its two input rows, `width` elements apart.
struct PairRow {
  std::int64_t width = 0;    ///< Columns of the input plane.
  std::int64_t columns = 0;  ///< Columns of the output row; 2·columns ≤ width.
  std::int64_t place = 0;    ///< Place of the first input row in its plane.
};

struct PoolLoops {
  /// y[j] = the largest of x[2j], x[2j + 1] and the two elements below; the first among equals, NaN
  /// above all. Computes row_count output rows that are consecutive in x and y, the first being
  /// `first`. With positions (may be nullptr), all rows belong to one plane.
  void (*max_pairs)(const PairRow& first,
                    std::int64_t row_count,
                    const float* x,
                    float* y,
                    std::int32_t* positions);
  /// Writes both input rows' gradients up to 2·columns. Returns false if a position lies outside
  /// its window.
  bool (*max_pairs_backward)(const PairRow& row,
                             const float* grad,
                             const std::int32_t* positions,
                             float* dx);
};

HEARTH_CPU_ISA_TABLE(PoolLoops, pool_loops);

}  // namespace hearth::cpu
