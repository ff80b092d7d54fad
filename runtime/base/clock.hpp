// Time as a seam: real time in programs, virtual time when tests step the system. Header-internal:
// what users say about time is std::chrono and Deadline (deadline.hpp).
// A thread reads the clock of its ThreadContext; nothing else in the library asks the operating
// system for the time. Threads: now() from any thread. Invariant: a clock never goes back.
#pragma once

#include <chrono>

namespace hearth::detail {

using TimePoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

/// The sum of two durations from zero up. nanoseconds::max() means "no limit", and stays that.
[[nodiscard]] constexpr std::chrono::nanoseconds saturated_sum(
    std::chrono::nanoseconds a, std::chrono::nanoseconds b) noexcept {
  return a > std::chrono::nanoseconds::max() - b ? std::chrono::nanoseconds::max() : a + b;
}

class Clock {
 public:
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  [[nodiscard]] virtual TimePoint now() const noexcept = 0;
  /// How much of the time up to `now` nobody could run (see Standstill): no deadline counts it.
  [[nodiscard]] virtual std::chrono::nanoseconds standstill(TimePoint now) const noexcept = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const noexcept override;
  [[nodiscard]] std::chrono::nanoseconds standstill(TimePoint now) const noexcept override;
};

}  // namespace hearth::detail
