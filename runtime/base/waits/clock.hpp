// The clock seam: real time in programs, virtual time in tests that step the system.
// Header-internal: users express time with std::chrono and Deadline (deadline.hpp).
// A thread reads the clock of its ThreadContext. Nothing else in the library reads the operating
// system's time. Threads: now() from any thread. Invariant: a clock never goes back.
#pragma once

#include <chrono>

namespace hearth::detail {

using TimePoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

/// Returns the sum of two non-negative durations. nanoseconds::max() means "no limit" and
/// saturates.
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
  /// Returns the part of the time up to `now` in which the process could not run (see Standstill).
  /// Deadlines do not count it.
  [[nodiscard]] virtual std::chrono::nanoseconds standstill(TimePoint now) const noexcept = 0;
};

/// The machine's monotonic clock.
class SteadyClock final : public Clock {
 public:
  [[nodiscard]] TimePoint now() const noexcept override;
  [[nodiscard]] std::chrono::nanoseconds standstill(TimePoint now) const noexcept override;
};

}  // namespace hearth::detail
