// Time as a seam: real time in programs, virtual time when tests step the system.
// A thread reads the clock of its ThreadContext; nothing else in the library asks the operating
// system for the time. Threads: now() from any thread. Invariant: a clock never goes back.
#pragma once

#include <chrono>

namespace hearth {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// The sum of two durations from zero up. Duration::max() means "no limit", and stays that.
[[nodiscard]] constexpr Duration saturated_sum(Duration a, Duration b) noexcept {
  return a > Duration::max() - b ? Duration::max() : a + b;
}

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  [[nodiscard]] virtual TimePoint now() const noexcept = 0;
  /// How much of the time up to `now` nobody could run (see Standstill): no deadline counts it.
  [[nodiscard]] virtual Duration standstill(TimePoint now) const noexcept = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const noexcept override;
  [[nodiscard]] Duration standstill(TimePoint now) const noexcept override;
};

}  // namespace hearth
