#include <hearth/runtime/base/terminal_guard.hpp>

#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include <hearth/runtime/base/last_act.hpp>

namespace hearth {
namespace {

// Global, because signal handlers reach only globals. Written before `guarded_file`, read after it.
static termios modes_before;
static std::atomic<std::uint32_t> guarded_file{0};  // file number plus one; 0 = no guard
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "a signal handler takes no lock");

extern "C" void restore_and_die(int signal) {
  TerminalGuard::restore();
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  sigaction(signal, &plain, nullptr);
  raise(signal);  // delivered when the handler returns
}

}  // namespace

void TerminalGuard::restore() noexcept {
  const std::uint32_t guarded =
      guarded_file.exchange(0, std::memory_order_acq_rel);  // partner: TerminalGuard()
  if (guarded == 0) {
    return;
  }
  const int file = static_cast<int>(guarded - 1);
  // Resets the attributes, shows the cursor, leaves the alternate screen, returns to the first
  // column.
  constexpr std::string_view kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l\r";
  static_cast<void>(!write(file, kLeave.data(), kLeave.size()));
  tcsetattr(file, TCSADRAIN, &modes_before);
}

TerminalGuard::TerminalGuard(int file) {
  if (tcgetattr(file, &modes_before) != 0) {
    return;  // not a terminal: nothing to restore
  }
  guarded_file.store(static_cast<std::uint32_t>(file) + 1,
                     std::memory_order_release);  // partner: restore
  struct sigaction restoring {};
  restoring.sa_handler = restore_and_die;
  sigemptyset(&restoring.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_DFL) {
      sigaction(kSignals[i], &restoring, nullptr);
    }
  }
  last_act_ = std::make_unique<LastAct>([] { restore(); });
}

TerminalGuard::~TerminalGuard() {
  last_act_.reset();
  guarded_file.store(0, std::memory_order_release);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    sigaction(kSignals[i], nullptr, &now);
    if (now.sa_handler == restore_and_die) {
      sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
}

detail::SignalHandler detail::ending_handler() noexcept {
  return guarded_file.load(std::memory_order_acquire) == 0 ? SIG_DFL : restore_and_die;
}

}  // namespace hearth
