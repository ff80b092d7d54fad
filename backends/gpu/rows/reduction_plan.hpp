// Plans a reduction: the axes that stay, the axes that are reduced, and the work of a workgroup, a
// thread and a load. A function of the call's shapes and strides and of the device. Threads: any.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"
#include "backends/gpu/space/axis_list.hpp"

namespace hearth::gpu {

struct ReductionPlan {
  AxisList kept{2};     ///< Operands: the input, the result.
  AxisList reduced{1};  ///< Operand: the input.
  /// Neighbouring threads take results that are neighbours in memory; else parts of one result.
  bool is_columns = false;
  bool wide = false;
  int pack = 1;                ///< Elements of a load.
  int threads = 256;           ///< Threads of a workgroup.
  int lanes = 1;               ///< Threads that share a result; a power of two.
  std::int64_t splits = 1;     ///< Workgroups that share a result.
  std::int64_t chunk = 0;      ///< Elements of the reduced axes in a split.
  std::int64_t group_results;  ///< Results of a workgroup.

  [[nodiscard]] std::int64_t groups() const noexcept {
    return (kept.count() + group_results - 1) / group_results * splits;
  }
};

/// `axes` has a bit for each reduced axis. `in_order` keeps the order of the reduced axes, for
/// results that are places along them. Requires that the result has elements.
[[nodiscard]] ReductionPlan plan_reduction(const TensorView& input,
                                           std::uint32_t axes,
                                           bool in_order,
                                           const DeviceLimits& limits) noexcept;
/// Plans the second pass over `splits` partial results, which are contiguous.
[[nodiscard]] ReductionPlan plan_second_pass(const ReductionPlan& first,
                                             const DeviceLimits& limits) noexcept;

}  // namespace hearth::gpu
