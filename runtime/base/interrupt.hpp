// InterruptScope: Ctrl-C and SIGTERM as a wish that a program looks at where it can end well, a
// training between two steps, say. A second signal ends the program as it does without a scope.
// Owned by whoever can look at it. Threads: any; scopes of several threads may end in any order.
// What the signals do belongs to the process, so the scopes of a process share one count; each sees
// the signals that came since it began.
// Invariants: (1) the handler only counts; (2) when the last scope ends, the signals do what they
// did before the first one; (3) a signal that was ignored then is left alone.
#pragma once

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
};

}  // namespace hearth
