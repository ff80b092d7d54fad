#include <hearth/runtime/base/interrupt.hpp>

#include <hearth/runtime/base/terminal_guard.hpp>

#include <atomic>

namespace hearth {
namespace {

static std::atomic<std::uint32_t> signal_count{0};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "a signal handler takes no lock");

extern "C" void count_signal(int /*signal*/) {
  signal_count.fetch_add(1, std::memory_order_acq_rel);  // partner: is_requested
  // From now on either signal ends the program.
  struct sigaction ending {};
  ending.sa_handler = detail::ending_handler();
  sigaction(SIGINT, &ending, nullptr);
  sigaction(SIGTERM, &ending, nullptr);
}

}  // namespace

InterruptScope::InterruptScope() : count_before_(signal_count.load(std::memory_order_acquire)) {
  struct sigaction counting {};
  counting.sa_handler = count_signal;
  counting.sa_flags = SA_RESTART;
  sigemptyset(&counting.sa_mask);
  const auto install = [&](int signal, struct sigaction& before) {
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) {  // so a shell starts what runs behind a `&`
      sigaction(signal, &counting, nullptr);
    }
  };
  install(SIGINT, interrupt_before_);
  install(SIGTERM, terminate_before_);
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

bool InterruptScope::is_requested() const noexcept {
  return signal_count.load(std::memory_order_acquire) != count_before_;  // partner: count_signal
}

}  // namespace hearth
