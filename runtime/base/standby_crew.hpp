// StandbyCrew: threads that share work which is too short to wake anybody for. While such pieces of
// work follow one another closely, the crew stays awake and spins for the next one; a moment after
// the last one, or as soon as others want its cores, it sleeps. Owned by whoever cuts the work, a
// device's set of cores. Threads: muster() and run() by one thread at a time; the shares run on the
// caller and on the crew. Invariants: (1) a share runs once, and run() returns when all have ended;
// (2) nobody is waited for who has not begun: what the crew has not taken when the caller is done
// with its own share, the caller does; (3) an idle crew costs no processor time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/executor.hpp>

namespace hearth {

class StandbyCrew final {
 public:
  /// Work that comes within kGap of the last one continues a burst; the crew is woken after so
  /// many.
  static constexpr std::chrono::nanoseconds kGap = std::chrono::microseconds(300);
  static constexpr int kBurst = 8;
  /// How long the crew spins for the next piece of work.
  static constexpr std::chrono::nanoseconds kLinger = std::chrono::microseconds(200);
  /// A spinning thread that did not run for so long is in somebody's way: it sleeps, and is left
  /// asleep for kShortRest, and for twice as long as the last time if that was a moment ago.
  static constexpr std::chrono::nanoseconds kHindered = std::chrono::microseconds(50);
  static constexpr std::chrono::nanoseconds kShortRest = std::chrono::microseconds(250);
  static constexpr std::chrono::nanoseconds kLongRest = std::chrono::milliseconds(16);

  /// `size` threads on these cores; they start when they are first woken. Lifetime: the executor
  /// outlives it.
  StandbyCrew(detail::Executor& executor, std::vector<int> cores, int size);
  StandbyCrew(const StandbyCrew&) = delete;
  StandbyCrew& operator=(const StandbyCrew&) = delete;
  ~StandbyCrew();

  /// How many threads would share work now, the caller counted: 1 while the crew sleeps. Counts
  /// towards a burst. Cost: one look at the clock; some microseconds where it wakes the crew.
  [[nodiscard]] int muster() noexcept;
  /// Calls share(context, i, count) for each i in [0, count). share must not throw.
  /// Requires 1 ≤ count ≤ 1 + size.
  using Share = void (*)(const void* context, int index, int count);
  void run(int count, Share share, const void* context) noexcept;

 private:
  class Seat;
  void wake() noexcept;

  detail::Executor& executor_;
  const std::vector<int> cores_;
  std::vector<std::unique_ptr<Seat>> seats_;
  detail::TimePoint last_wish_{};
  detail::TimePoint rests_until_{};
  std::chrono::nanoseconds rest_ = kShortRest;
  int wishes_ = 0;
};

}  // namespace hearth
