// Measures when launches ran, for traces, in the host's time. The device writes one timestamp
// before the first run of dispatches, and one behind each run of one launch. A batch begins after
// its submission and ends before the host sees its end. Each batch thus bounds the difference of
// the two clocks more closely.
// Owned by a queue. Threads: owner only; those of TimedBatch: the owner of the batch.
// Invariant: the times of a batch's runs follow one another without gaps, so no time counts twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <hearth/backends/backend.hpp>

namespace hearth::gpu {

/// The runs of a batch, and its number of timestamps.
struct TimedBatch {
  /// Timestamps of a batch, more than the launches of a batch that begins without a flush. The last
  /// runs of a longer batch share one timestamp.
  static constexpr std::uint32_t kMostTimestamps = 256;
  /// Consecutive dispatches of one launch.
  struct Run {
    std::uint32_t number = 0;  ///< Launch::timed_as; 0: the launch is not timed.
    std::uint32_t end = 0;     ///< Index of the end timestamp; the previous one is the begin.
    bool is_behind_barrier = false;
  };

  std::uint32_t written = 0;  ///< Number of timestamps written.
  std::vector<Run> runs = {};
  std::chrono::nanoseconds submitted = {};  ///< Time of submission, by the host's clock.

  /// Adds a dispatch of launch `number`. Returns whether a timestamp comes before it.
  [[nodiscard]] bool add(std::uint32_t number, bool is_behind_barrier);
};

class LaunchClock final {
 public:
  /// The host's time.
  [[nodiscard]] static std::chrono::nanoseconds now();
  /// Adds the times of a batch that has ended, from its timestamps by the device's clock. Ignores
  /// timestamps that are not in order, because the clock may have been reset.
  void add(const TimedBatch& batch, std::span<const std::chrono::nanoseconds> stamps);
  [[nodiscard]] std::vector<LaunchTime> take() { return std::exchange(times_, {}); }

 private:
  void add_runs(const TimedBatch& batch, std::span<const std::chrono::nanoseconds> stamps);

  std::vector<LaunchTime> times_;
  /// The host's clock minus the device's.
  std::optional<std::chrono::nanoseconds> difference_;
};

}  // namespace hearth::gpu
