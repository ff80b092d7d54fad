// Folds of rows in shaders: one value from those of the threads that share a row. Text, behind the
// prelude. Pure. Threads: any.
// Threads are known by row_thread(), the number in the workgroup by subgroups, so that neighbours
// in it share a subgroup. Every thread has to call, and all get the same bits.
#pragma once

#include <string>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth {

/// What a fold starts from, and what it makes of two values, `a` before `b`. Not for f16 and bf16.
[[nodiscard]] std::string glsl_fold_start(FoldOp op, DType type);
[[nodiscard]] std::string glsl_fold_step(FoldOp op,
                                         DType type,
                                         const std::string& a,
                                         const std::string& b);

/// Sums whose rounding errors do not grow with their length, for float and double: `add_long(sum,
/// lost, x)` keeps in `lost` what `sum` was rounded by; `long_sum(sum, lost)` is the sum, infinite
/// where `sum` is. `type` is a type of GLSL.
[[nodiscard]] std::string glsl_long_sum(std::string_view type);
/// `ADD(sum, lost, x)` and `TOTAL(sum, lost)`: these for floats, plain sums for integers.
[[nodiscard]] std::string glsl_adding(DType type);

/// For rows that neighbours in a workgroup share: `int row_thread()`, by which they are numbered,
/// and `int row_width(int lanes)`, how many of `lanes` meet by shuffles: 1 where subgroups are not
/// full, which a device need not promise.
[[nodiscard]] std::string_view glsl_row_threads() noexcept;

/// `T of_lane(T x, uint bits)`: x of the subgroup's thread whose number differs in these bits.
/// `type` is a type of GLSL.
[[nodiscard]] std::string glsl_of_lane(std::string_view type);

/// `T join_max_f32(T x)`: folds over `row_threads` neighbours by row_thread(), a power of two, none
/// of which lies in another subgroup; or, where row_threads is the workgroup, over all its threads.
/// Stands behind glsl_row_threads().
[[nodiscard]] std::string glsl_join(FoldOp op, DType type, int row_threads, int threads);
[[nodiscard]] std::string glsl_join_name(FoldOp op, DType type);

}  // namespace hearth
