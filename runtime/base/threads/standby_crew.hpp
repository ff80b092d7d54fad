// StandbyCrew: threads that share work which is too short to wake a thread for. While such work
// arrives in quick succession, the crew stays awake and spins for the next piece. It sleeps shortly
// after the last one, or as soon as other threads need its cores.
// Owned by the code that divides the work: a device's set of cores. Threads: request_threads() and
// run() by one thread at a time; the shares run on the caller and on the crew. Invariants: (1) each
// share runs once, and run() returns when all have ended; (2) the caller never waits for a share
// that has not begun: after its own share it runs the shares that the crew has not taken; (3) an
// idle crew costs no processor time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/executor.hpp>

namespace hearth {

class StandbyCrew final {
 public:
  /// Work within kGap of the last one continues a burst; the crew is woken after kBurst of them.
  static constexpr std::chrono::nanoseconds kGap = std::chrono::microseconds(300);
  static constexpr int kBurst = 8;
  /// Time that the crew spins for the next piece of work.
  static constexpr std::chrono::nanoseconds kLinger = std::chrono::microseconds(200);
  /// A spinning thread that was not scheduled for kPreemptedAfter blocks other threads, so it goes
  /// to sleep. It stays asleep for kShortSleep, or for twice its last sleep if that was recent, up
  /// to kLongSleep.
  static constexpr std::chrono::nanoseconds kPreemptedAfter = std::chrono::microseconds(50);
  static constexpr std::chrono::nanoseconds kShortSleep = std::chrono::microseconds(250);
  static constexpr std::chrono::nanoseconds kLongSleep = std::chrono::milliseconds(16);

  /// Makes a crew of `size` threads on these cores; they start when they are first woken.
  ///
  /// Lifetime: the executor outlives the crew.
  StandbyCrew(detail::Executor& executor, std::vector<int> cores, int size);
  StandbyCrew(const StandbyCrew&) = delete;
  StandbyCrew& operator=(const StandbyCrew&) = delete;
  ~StandbyCrew();

  /// Returns the number of threads that would share work now, including the caller: 1 while the
  /// crew sleeps. Counts towards a burst.
  ///
  /// Cost: one clock read; some microseconds if it wakes the crew.
  [[nodiscard]] int request_threads() noexcept;
  /// Calls share(context, i, count) for each i in [0, count). share must not throw. Requires 1 ≤
  /// count ≤ 1 + size.
  using Share = void (*)(const void* context, int index, int count);
  void run(int count, Share share, const void* context) noexcept;

 private:
  class Seat;
  void wake() noexcept;

  detail::Executor& executor_;
  const std::vector<int> cores_;
  std::vector<std::unique_ptr<Seat>> seats_;
  detail::TimePoint last_request_{};
  detail::TimePoint sleeps_until_{};
  std::chrono::nanoseconds sleep_time_ = kShortSleep;
  int request_count_ = 0;
};

}  // namespace hearth
