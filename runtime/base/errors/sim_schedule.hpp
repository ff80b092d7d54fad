// Timing and order of work on an asynchronous sim device, for tests of programs and of the library.
// Values, any thread.
#pragma once

#include <cstdint>

namespace hearth {

/// Schedule of an asynchronous sim device. Its time is virtual: it passes while a thread waits for
/// the device.
struct SimSchedule {
  int queues = 2;  ///< Number of queues, at least 1. An op goes to the least loaded queue.
  /// Seed of a random order for work that has no required order; 0 = off.
  std::uint64_t reorder_seed = 0;
  /// Seed of random durations, up to twice the cost; 0 = off. A waiting thread may then also be
  /// notified late, after further work has ended.
  std::uint64_t cost_seed = 0;
  /// Checks each memory access for bytes that are read or reused too early; such an access fails
  /// with `internal`.
  bool checks_memory = true;
};

}  // namespace hearth
