// Shared by the kernels of gather, index_select, their adjoints and scatter: the operands, and the
// check of the index before anything is read or written. Private to backends/cpu. Threads: owner
// only; the check forks and joins.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/backends/kernel.hpp>

#include <cstdint>

namespace hearth::cpu {

/// Operands by role. `whole` is the indexed tensor: x of a pick, the result of an adjoint or of
/// scatter. `part` has an element for each index: the result of a pick, the source of an adjoint,
/// the updates of scatter.
struct Indexing {
  explicit Indexing(const KernelCall& call) noexcept;

  const TensorView& whole;
  const TensorView& part;
  const TensorView& index;
  int axis;
  bool is_line;  ///< The index is one line along the axis, shared by all other places.

  /// Returns the strides of the index over `part`.
  [[nodiscard]] Strides index_strides() const noexcept;
  [[nodiscard]] std::int64_t axis_size() const noexcept { return whole.shape()[axis]; }
};

/// Checks that all indices lie on the axis.
/// Errors: out_of_range for the first one outside, in row-major order.
[[nodiscard]] Status check_index(const KernelCall& call,
                                 const Indexing& op,
                                 KernelContext& context);

[[nodiscard]] Status run_pick(const KernelCall& call, KernelContext& context);     // pick.cpp
[[nodiscard]] Status run_add_at(const KernelCall& call, KernelContext& context);   // add_at.cpp
[[nodiscard]] Status run_scatter(const KernelCall& call, KernelContext& context);  // scatter.cpp

}  // namespace hearth::cpu
