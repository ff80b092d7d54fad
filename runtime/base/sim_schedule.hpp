// How an asynchronous sim device gets through its work: for the tests of programs, and ours.
// Values, any thread.
#pragma once

#include <cstdint>

namespace hearth {

/// Time on such a device is virtual: it passes while somebody waits for the device.
struct SimSchedule {
  int queues = 2;  ///< Ops go to the one that has the least to do; 1 or more.
  /// Not 0: a seed, by which work that nothing orders runs in any order.
  std::uint64_t reorder_seed = 0;
  /// Not 0: a seed, by which each piece of work takes up to twice its cost, and some more may end
  /// before a thread that waits notices that it need not.
  std::uint64_t cost_seed = 0;
  /// Each access to memory is checked for bytes that are read or used again too early; one that is
  /// fails with `internal`.
  bool checks_memory = true;
};

}  // namespace hearth
