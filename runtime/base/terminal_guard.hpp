// TerminalGuard: gives a terminal back as it was when a program dies that draws on all of it: of an
// exception that nobody catches, of abort(), of a signal. Who ends it in good order restores the
// terminal itself, before.
// Owned by what draws. Threads: one at a time; a process has one guard at most, as it has one
// controlling terminal. Invariants: (1) its handlers do what a signal handler may, restore, and let
// the signal do what it did before; (2) when the guard ends, the signals do what they did before
// it.
#pragma once

#include <array>
#include <csignal>
#include <cstddef>
#include <memory>

namespace hearth {

class LastAct;

class TerminalGuard final {
 public:
  /// `file`: the terminal's. Remembers its modes as they are now, so before they change.
  explicit TerminalGuard(int file);
  TerminalGuard(const TerminalGuard&) = delete;
  TerminalGuard& operator=(const TerminalGuard&) = delete;
  ~TerminalGuard();

  /// Leaves the alternate screen, shows the cursor, and sets the modes that were remembered; once.
  /// Nothing without a guard. Threads: any, and signal handlers.
  static void restore() noexcept;

 private:
  static constexpr std::array<int, 8> kSignals{
      SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGQUIT, SIGHUP, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> before_{};
  std::unique_ptr<LastAct> last_act_;
};

namespace detail {
/// What a signal that ends the program is to do: SIG_DFL, or with a guard that after restoring.
using SignalHandler = void (*)(int);
[[nodiscard]] SignalHandler ending_handler() noexcept;
}  // namespace detail

}  // namespace hearth
