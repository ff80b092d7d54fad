// Standstill: the time in which no thread of this process could run. Either the process was stopped
// (SIGSTOP, a debugger, a frozen container), or its machine was. Deadlines do not count that time.
// A sleeper with a deadline reads the clock every kBeat. If the clock is far past the next due read
// of all sleepers, no thread could run in between.
// Threads: any. Invariants: (1) a standstill counts once, although each resumed thread detects it;
// (2) the sum never falls; (3) without a sleeper nothing counts: a long computation is no
// standstill.
#pragma once

#include <atomic>
#include <cstdint>

#include <hearth/runtime/base/clock.hpp>

namespace hearth {

class Standstill final {
 public:
  /// Longest sleep of a sleeper with a deadline before it reads the clock.
  static constexpr std::chrono::nanoseconds kBeat = std::chrono::milliseconds(250);
  /// Tolerated delay of that read, on an overloaded machine.
  static constexpr std::chrono::nanoseconds kTolerance = std::chrono::milliseconds(250);

  constexpr Standstill() noexcept = default;
  Standstill(const Standstill&) = delete;
  Standstill& operator=(const Standstill&) = delete;
  ~Standstill() = default;

  /// Returns the sum of all standstills up to `now`, in milliseconds.
  ///
  /// Cost: three loads.
  [[nodiscard]] std::chrono::nanoseconds sum(detail::TimePoint now) noexcept;

  /// Registers the calling thread as a sleeper from `now` on. It sleeps at most kBeat and then
  /// calls end_sleep().
  void begin_sleep(detail::TimePoint now) noexcept;
  void end_sleep(detail::TimePoint now) noexcept;

 private:
  // One word, so that a standstill found by two threads is counted once. Above kUntilBits: the sum
  // in milliseconds. Below: the time up to which all is counted, in kUntilUnit, rounded up.
  static constexpr unsigned kUntilBits = 33;
  static constexpr std::chrono::nanoseconds kUntilUnit = std::chrono::milliseconds(64);
  static constexpr std::uint64_t kUntilMask = (std::uint64_t{1} << kUntilBits) - 1;

  [[nodiscard]] std::uint64_t count(std::uint64_t counted, detail::TimePoint now) const noexcept;

  std::atomic<std::uint64_t> counted_{0};
  std::atomic<std::int64_t> last_sleep_{0};  ///< When the last sleeper began to sleep.
  std::atomic<std::int32_t> sleepers_{0};
};

/// Returns the Standstill of this process, for its real clock.
[[nodiscard]] Standstill& process_standstill() noexcept;

}  // namespace hearth
