// TerminalGuard: restores the terminal when a full-screen program dies of an uncaught exception,
// abort() or a signal. A program that ends normally restores the terminal itself before.
// Owned by the code that draws. Threads: one at a time; a process has at most one guard, as it has
// one controlling terminal.
// Invariants: (1) its handlers are async-signal-safe, restore, and then run the signal's previous
// action; (2) when the guard ends, the signal actions are those from before it.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <memory>

namespace hearth {

class LastAct;

class TerminalGuard final {
 public:
  /// Saves the current modes of the terminal, so call it before they change. `file` is the
  /// terminal's descriptor.
  explicit TerminalGuard(int file);
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;
  ~TerminalGuard();

  /// Leaves the alternate screen, shows the cursor, and restores the saved modes; once. Does
  /// nothing without a guard. Threads: any, and signal handlers.
  static void restore() noexcept;

 private:
  static constexpr std::array<int, 8> kSignals{
      SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGHUP, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> before_{};
  std::unique_ptr<LastAct> last_act_;
};

namespace detail {
/// Returns the action of a signal that ends the program: SIG_DFL, or with a guard, restore and
/// SIG_DFL.
using SignalHandler = void (*)(int);
[[nodiscard]] SignalHandler ending_handler() noexcept;
}  // namespace detail

}  // namespace hearth
