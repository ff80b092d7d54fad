// Standstill: how much of the time that has passed nobody of this process could run, because the
// process was stopped (SIGSTOP, a debugger, a frozen container) or its machine was. No deadline
// counts that time. A sleeper that waits with a deadline looks at the clock every kBeat; when the
// clock is far past the next look of all sleepers, nobody could run in between.
// Threads: any. Invariants: (1) a standstill counts once, although each thread that runs again
// finds it; (2) the sum never falls; (3) without a sleeper nothing counts: a program that computes
// by itself stands still for nobody.
#pragma once

#include <atomic>
#include <cstdint>

#include <hearth/runtime/base/clock.hpp>

namespace hearth {

class Standstill final {
 public:
  /// How long a sleeper with a deadline sleeps at most before it looks at the clock.
  static constexpr std::chrono::nanoseconds kBeat = std::chrono::milliseconds(250);
  /// How late its look may be, on a machine that has more to do than it can.
  static constexpr std::chrono::nanoseconds kTolerance = std::chrono::milliseconds(250);

  constexpr Standstill() noexcept = default;
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;
  ~Standstill() = default;

  /// The sum of all standstills up to `now`, in milliseconds. Cost: three loads.
  [[nodiscard]] std::chrono::nanoseconds sum(detail::TimePoint now) noexcept;

  /// The calling thread sleeps from `now` on, for kBeat at most, and then calls end_sleep().
  void begin_sleep(detail::TimePoint now) noexcept;
  void end_sleep(detail::TimePoint now) noexcept;

 private:
  // One word, so that two finders do not both count what one of them has found: the sum in
  // milliseconds above kUntilBits, and below it the time up to which all is counted, in
  // kUntilUnit, rounded up.
  static constexpr unsigned kUntilBits = 33;
  static constexpr std::chrono::nanoseconds kUntilUnit = std::chrono::milliseconds(64);
  static constexpr std::uint64_t kUntilMask = (std::uint64_t{1} << kUntilBits) - 1;

  [[nodiscard]] std::uint64_t count(std::uint64_t counted, detail::TimePoint now) const noexcept;

  std::atomic<std::uint64_t> counted_{0};
  std::atomic<std::int64_t> last_sleep_{0};  ///< When the last sleeper began to sleep.
  std::atomic<std::int32_t> sleepers_{0};
};

/// Of this process, for its real clock.
[[nodiscard]] Standstill& process_standstill() noexcept;

}  // namespace hearth
