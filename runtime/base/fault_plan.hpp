// What goes wrong on a sim device, and when: for the tests of programs, and ours. Numbers count
// from 1. Values, any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace hearth {

/// Numbers of ops and of memory pages are those of one device; views are no ops, and a readback of
/// a view is one.
struct FaultPlan {
  std::vector<std::uint64_t> failing_submits =
      {};  ///< These submits are kernel_failed; the device goes on.
  /// These submits fail while they run: on an asynchronous sim at their end, where the host finds
  /// the failure later; elsewhere, and for ops that cannot fail there, as failing_submits.
  std::vector<std::uint64_t> late_failures = {};
  std::uint64_t lost_at_submit = 0;  ///< This submit and all later work is device_lost; 0 = never.
  /// vulkan: from this call on the driver answers that the device is lost, where it is asked to run
  /// work, waits for it or says how far it is; 0 = never.
  std::uint64_t lost_at_call = 0;
  /// vulkan: of the calls that end a batch of commands or give it to the queue, this one is refused
  /// for want of host memory: the device counts as lost from there on; 0 = none.
  std::uint64_t refused_at_call = 0;
  std::int64_t failing_allocation = 0;        ///< This page is out_of_memory; 0 = none.
  std::int64_t failing_allocation_count = 1;  ///< As many pages in a row.
  /// These compilations are kernel_failed. A kernel is compiled when its kind, types and shapes
  /// come for the first time, and again after a failure.
  std::vector<std::uint64_t> failing_compiles = {};
  /// The device is lost when its clock gets here; what has not ended by then never does.
  std::chrono::nanoseconds lost_at = std::chrono::nanoseconds::max();
  /// This submit never ends, nor does what waits for it; reads of it are deadline_exceeded; 0 =
  /// none.
  std::uint64_t hanging_submit = 0;
  /// One bit of these downloads is turned over.
  std::vector<std::uint64_t> corrupted_downloads = {};
  /// These submits do not wait for the work whose bytes they touch: a bug of a backend, which
  /// shadow memory finds. Only with several queues or out of order.
  std::vector<std::uint64_t> forgotten_barriers = {};
};

}  // namespace hearth
