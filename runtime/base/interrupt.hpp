// InterruptScope: Ctrl-C and SIGTERM as a wish that a program looks at where it can end well, a
// training between two steps, say. A second signal ends the program as it does without a scope.
// Owned by whoever can look at it. Threads: construction and destruction by one at a time, in
// nested order; is_requested() from any. What the signals do belongs to the process, so the scopes
// of a process share one count; each sees the signals that came since it began.
// Invariants: (1) the handler only counts; (2) when the outermost scope ends, the signals do what
// they did before it.
#pragma once

#include <csignal>
#include <cstdint>

namespace hearth {

class InterruptScope final {
 public:
  InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  ~InterruptScope();

  /// Whether SIGINT or SIGTERM came since the scope began.
  [[nodiscard]] bool is_requested() const noexcept;

 private:
  std::uint32_t count_before_;
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

}  // namespace hearth
