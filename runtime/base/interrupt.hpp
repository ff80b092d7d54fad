// InterruptScope: Ctrl-C, SIGTERM and SIGHUP (the terminal is gone) as a wish that a program looks
// at where it can end well: a training between two steps.
// One Ctrl-C may arrive several times, from the terminal and from a parent that passes it on: all
// signals within kInterruptPause of the first are that one wish. The next one ends the program as
// it does without a scope.
// While a scope lives, a write to a closed pipe fails with EPIPE and does not end the program
// (SIGPIPE), so that `trainer | head` loses no model.
// Owned by whoever can look at it. Threads: any; scopes of several threads may end in any order.
// What the signals do belongs to the process, so the scopes of a process share one count; each sees
// the signals that came since it began.
// Invariants: (1) the handlers only count and read the clock, or end the program; (2) when the last
// scope ends, the signals do what they did before the first one; (3) a signal that was ignored then
// is left alone, and so is a SIGPIPE with a handler; (4) a program that is started meanwhile has
// the signals as it would without a scope.
#pragma once

#include <chrono>
#include <cstdint>

namespace hearth {

/// How long after the first signal others are still the same wish.
inline constexpr std::chrono::milliseconds kInterruptPause{1000};

class InterruptScope final {
 public:
  InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  ~InterruptScope();

  /// Whether SIGINT, SIGTERM or SIGHUP came since the scope began.
  [[nodiscard]] bool is_requested() const noexcept;

 private:
  std::uint32_t count_before_;
};

namespace detail {
/// The time that the handlers read, of any beginning; for a test, which gives it back.
using InterruptClock = std::chrono::nanoseconds (*)() noexcept;
InterruptClock exchange_interrupt_clock(InterruptClock clock) noexcept;
}  // namespace detail

}  // namespace hearth
