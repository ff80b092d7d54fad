// GLSL text for folds of rows: combines the values of the threads that share a row into one. The
// text stands behind the prelude. Pure. Threads: any.
// Invariants: (1) row_thread() numbers the threads of a workgroup by subgroup, so neighbours share
// a subgroup; (2) every thread has to call a fold; (3) all threads receive the same bits.
#pragma once

#include <string>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth::gpu {

/// The start value of a fold, and its step for two values, `a` before `b`. Not for f16 and bf16; of
/// bools only extremes.
[[nodiscard]] std::string glsl_fold_start(FoldOp op, DType type);
[[nodiscard]] std::string glsl_fold_step(FoldOp op,
                                         DType type,
                                         const std::string& a,
                                         const std::string& b);

/// Compensated sums for float and double, whose rounding error does not grow with the length.
/// `add_long(sum, lost, x)` accumulates the rounding error of `sum` in `lost`; `long_sum(sum,
/// lost)` returns the total, infinite where `sum` is. `type` is a GLSL type.
[[nodiscard]] std::string glsl_long_sum(std::string_view type);
/// Defines `ADD(sum, lost, x)` and `TOTAL(sum, lost)`: compensated sums for floats, plain sums for
/// integers.
[[nodiscard]] std::string glsl_adding(DType type);
/// Defines ADD, TOTAL and `JOIN(sum, x)`, which returns a plain step, with the functions that a
/// step calls: for sums as above, plain products, and extremes where NaN wins and of equal values
/// the first.
[[nodiscard]] std::string glsl_joining(FoldOp op, DType type);

/// For rows that neighbours in a workgroup share. `int row_thread()` is the number of the thread.
/// `int row_width(int lanes)` is the number of `lanes` that combine by shuffles: 1 where subgroups
/// are not full, which a device need not promise.
[[nodiscard]] std::string_view glsl_row_threads() noexcept;

/// `T of_lane(T x, uint bits)`: x of the subgroup's thread whose number differs in these bits.
/// `type` is a GLSL type.
[[nodiscard]] std::string glsl_of_lane(std::string_view type);

/// `T join_max_f32(T x)`: folds over `row_threads` neighbours by row_thread(). `row_threads` is a
/// power of two within one subgroup, or the size of the workgroup: then the fold covers all its
/// threads. Stands behind glsl_row_threads().
[[nodiscard]] std::string glsl_join(FoldOp op, DType type, int row_threads, int threads);
[[nodiscard]] std::string glsl_join_name(FoldOp op, DType type);

}  // namespace hearth::gpu
