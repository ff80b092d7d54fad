// InterruptScope: turns Ctrl-C, SIGTERM and SIGHUP (closed terminal) into a request that a program
// polls where it can end cleanly, such as between two training steps.
// One Ctrl-C may arrive several times, from the terminal and from a parent that forwards it. All
// signals within kInterruptPause of the first count as one request. The next one ends the program
// as without a scope.
// While a scope lives, a write to a closed pipe fails with EPIPE. SIGPIPE does not end the program,
// so `trainer | head` loses no model.
// Owned by the code that polls it. Threads: any; scopes of several threads may end in any order.
// Signal actions belong to the process, so all scopes share one count. Each sees the signals since
// it began.
// Invariants: (1) the handlers only count and read the clock, or end the program; (2) when the last
// scope ends, the signal actions are those from before the first one; (3) a signal that was ignored
// before stays ignored, and a SIGPIPE handler stays; (4) a program that is started meanwhile
// inherits the signal actions as without a scope.
#pragma once

#include <chrono>
#include <cstdint>

namespace hearth {

/// Time after the first signal within which further signals count as the same request.
inline constexpr std::chrono::milliseconds kInterruptPause{1000};

class InterruptScope final {
 public:
  InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  ~InterruptScope();

  /// Returns whether SIGINT, SIGTERM or SIGHUP arrived since the scope began.
  [[nodiscard]] bool is_requested() const noexcept;

 private:
  std::uint32_t count_before_;
};

namespace detail {
/// Clock of the handlers, with any origin. A test replaces it and restores it.
using InterruptClock = std::chrono::nanoseconds (*)() noexcept;
InterruptClock exchange_interrupt_clock(InterruptClock clock) noexcept;
}  // namespace detail

}  // namespace hearth
