// The part of a backend that measures launches by the device's clock, a batch at a time.
// Owned by the backend. Threads: owner only.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace hearth {

/// Execution time of a launch: device timestamps, converted to the host's steady clock to within
/// some ten microseconds. A launch that ran in parts has one entry for each part.
struct LaunchTime {
  std::uint32_t number = 0;  ///< Launch::timed_as.
  std::chrono::nanoseconds begin = {};
  std::chrono::nanoseconds end = {};
  /// The launch may have overlapped its neighbours, because no barrier separated them. The interval
  /// runs from the end of the launch before it to its own end.
  bool is_side_by_side = false;
  /// Several launches shared one pair of timestamps; each has an equal share of the time.
  bool is_shared_out = false;
};

class BatchTimes {
 public:
  BatchTimes() = default;
  BatchTimes(const BatchTimes&) = delete;
  BatchTimes& operator=(const BatchTimes&) = delete;
  virtual ~BatchTimes() = default;

  /// Returns the times of completed launches that have a number (Launch::timed_as), each once.
  [[nodiscard]] virtual std::vector<LaunchTime> take_launch_times() = 0;
};

}  // namespace hearth
