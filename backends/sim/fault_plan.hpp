// What goes wrong on a sim device, and when. Numbers count from 1. Values, any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::sim {

struct FaultPlan {
  std::vector<std::uint64_t> failing_submits =
      {};                            ///< These submits are kernel_failed; the device goes on.
  std::uint64_t lost_at_submit = 0;  ///< This submit and all later work is device_lost; 0 = never.
  std::int64_t failing_allocation = 0;        ///< This page is out_of_memory; 0 = none.
  std::int64_t failing_allocation_count = 1;  ///< As many pages in a row.
};

}  // namespace hearth::sim
