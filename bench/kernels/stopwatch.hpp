// Times runs on the host, with the facts that show whether the machine disturbed them.
// Threads: the one that runs.
#pragma once

#include <hearth/autotune/sample.hpp>

#include <chrono>
#include <cstdint>

namespace hearth::bench {

/// Runs from its construction to stop().
class Stopwatch final {
 public:
  /// `source`: host_thread for runs on the calling thread alone, else host_crew or device.
  explicit Stopwatch(detail::SampleSource source) noexcept;
  /// Returns the sample of `run_count` runs.
  ///
  /// Cost: 1 µs; for a crew two reads of /proc, some 40 µs, outside of the timed stretch.
  [[nodiscard]] detail::Sample stop(std::int32_t run_count, std::int64_t rotated_bytes) noexcept;

 private:
  /// Counters of the machine since its start.
  struct Counters {
    std::int64_t waited_us = 0;  ///< Time in which some task waited for a core.
    std::int64_t steal_ticks = 0;
    std::int64_t switches = 0;  ///< Involuntary ones of this thread.
  };
  [[nodiscard]] Counters counters() const noexcept;

  detail::SampleSource source_;
  Counters before_;
  std::chrono::nanoseconds cpu_ = {};
  std::chrono::steady_clock::time_point begin_;
};

/// The load of the machine: its average over the last minute; 0 where /proc has none.
[[nodiscard]] double load_average() noexcept;
/// Time that the hypervisor took from all cores since the start of the machine, in seconds.
[[nodiscard]] double stolen_seconds() noexcept;

}  // namespace hearth::bench
