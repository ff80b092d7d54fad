// The loops of one fold (sum, mean, max, min, product), for reductions and for rows inside of fused
// kernels, which so give the same bits. Private to backends/cpu. Threads: any; pure functions.
#pragma once

#include "reduce_loops.hpp"

#include <hearth/backends/cpu/isa.hpp>
#include <hearth/streams/op_kind.hpp>

namespace hearth::cpu {

struct FoldLoops {
  ReduceLoops::Row row = nullptr;
  ReduceLoops::Columns columns = nullptr;
  ReduceLoops::Columns join = nullptr;  ///< Of accumulators.
};

/// Of a reduction's kind over elements of a type; `slot` is that of its accumulators.
[[nodiscard]] FoldLoops fold_loops(OpKind kind, DType type, DType slot, IsaLevel isa) noexcept;
/// What it begins with.
[[nodiscard]] Accumulator fold_start(OpKind kind, DType slot) noexcept;

}  // namespace hearth::cpu
