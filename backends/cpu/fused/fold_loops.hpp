// The loops of one fold (sum, mean, max, min, product), for reductions and for rows inside fused
// kernels, which therefore give equal bits. Private to backends/cpu. Threads: any; pure functions.
#pragma once

#include "reduce_loops.hpp"

#include <hearth/backends/cpu/isa.hpp>
#include <hearth/streams/op_kind.hpp>

namespace hearth::cpu {

struct FoldLoops {
  ReduceLoops::Row row = nullptr;
  ReduceLoops::Columns columns = nullptr;
  ReduceLoops::Columns join = nullptr;  ///< Joins accumulators.
};

/// Returns the loops of a reduction kind over elements of a type; `slot` is the type of its
/// accumulators.
[[nodiscard]] FoldLoops fold_loops(OpKind kind, DType type, DType slot, IsaLevel isa) noexcept;
/// Returns the initial accumulator.
[[nodiscard]] Accumulator fold_start(OpKind kind, DType slot) noexcept;

}  // namespace hearth::cpu
