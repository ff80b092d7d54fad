// Faults of a sim device, for tests of programs and of the library. Numbers count from 1. Values,
// any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace hearth {

/// Planned faults of one device. Ops and memory pages are numbered per device. Views are not ops,
/// but a readback of a view is one.
struct FaultPlan {
  std::vector<std::uint64_t> failing_submits =
      {};  ///< These submits fail with kernel_failed; the device continues.
  /// These submits fail while they run. An asynchronous sim detects the failure at their end; other
  /// devices, and ops that cannot fail there, behave as in failing_submits.
  std::vector<std::uint64_t> late_failures = {};
  /// This submit and all later work fail with device_lost; 0 = never.
  std::uint64_t lost_at_submit = 0;
  /// vulkan: from this call on, the driver reports a lost device when work is submitted, awaited or
  /// polled; 0 = never.
  std::uint64_t lost_at_call = 0;
  /// vulkan: this call, among those that end or submit a batch of commands, fails for lack of host
  /// memory. The device then counts as lost; 0 = none.
  std::uint64_t refused_at_call = 0;
  std::int64_t failing_allocation = 0;        ///< This page fails with out_of_memory; 0 = none.
  std::int64_t failing_allocation_count = 1;  ///< Number of pages that fail in a row.
  /// These compilations fail with kernel_failed. A kernel is compiled when its kind, types and
  /// shapes are first used, and again after a failure.
  std::vector<std::uint64_t> failing_compiles = {};
  /// The device is lost when its clock reaches this time; work that has not ended by then never
  /// ends.
  std::chrono::nanoseconds lost_at = std::chrono::nanoseconds::max();
  /// This submit never ends, nor does work that waits for it; reads of it fail with
  /// deadline_exceeded; 0 = none.
  std::uint64_t hanging_submit = 0;
  /// One bit of these downloads is flipped.
  std::vector<std::uint64_t> corrupted_downloads = {};
  /// These submits do not wait for the work whose bytes they touch: a backend bug that shadow
  /// memory detects. Only with several queues or out of order.
  std::vector<std::uint64_t> forgotten_barriers = {};
};

}  // namespace hearth
