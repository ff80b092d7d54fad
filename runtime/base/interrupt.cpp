#include <hearth/runtime/base/interrupt.hpp>

#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/terminal_guard.hpp>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>

namespace hearth {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM};

// What the handler reaches.
static std::atomic<std::uint32_t> signal_count{0};
static std::array<std::atomic<bool>, kSignals.size()> is_counted{};  // by kSignals
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "a signal handler takes no lock");
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler takes no lock");

extern "C" void count_signal(int /*signal*/) {
  signal_count.fetch_add(1, std::memory_order_acq_rel);  // partner: is_requested
  // From now on either signal ends the program.
  struct sigaction ending {};
  ending.sa_handler = detail::ending_handler();
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (is_counted[i].load(std::memory_order_acquire)) {  // partner: install
      sigaction(kSignals[i], &ending, nullptr);
    }
  }
}

struct Scopes {
  detail::Mutex mutex;
  std::size_t count HEARTH_GUARDED_BY(mutex) = 0;
  std::array<struct sigaction, kSignals.size()> before HEARTH_GUARDED_BY(mutex){};

  void install() HEARTH_REQUIRES(mutex) {
    struct sigaction counting {};
    counting.sa_handler = count_signal;
    counting.sa_flags = SA_RESTART;
    sigemptyset(&counting.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before[i]);
      if (before[i].sa_handler != SIG_IGN) {  // so a shell starts what runs behind a `&`
        is_counted[i].store(true, std::memory_order_release);  // partner: count_signal
        sigaction(kSignals[i], &counting, nullptr);
      }
    }
  }
  void restore() HEARTH_REQUIRES(mutex) {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      if (is_counted[i].exchange(false, std::memory_order_acq_rel)) {  // partner: count_signal
        sigaction(kSignals[i], &before[i], nullptr);
      }
    }
  }
};

// Never destroyed: a scope may end while statics are.
Scopes& scopes() {
  static auto* const all = new Scopes;
  return *all;
}

}  // namespace

InterruptScope::InterruptScope() : count_before_(signal_count.load(std::memory_order_acquire)) {
  Scopes& all = scopes();
  const detail::MutexLock lock(all.mutex);
  if (all.count++ == 0) {
    all.install();
  }
}

InterruptScope::~InterruptScope() {
  Scopes& all = scopes();
  const detail::MutexLock lock(all.mutex);
  if (--all.count == 0) {
    all.restore();
  }
}

bool InterruptScope::is_requested() const noexcept {
  return signal_count.load(std::memory_order_acquire) != count_before_;  // partner: count_signal
}

}  // namespace hearth
