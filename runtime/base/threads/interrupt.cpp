#include <hearth/runtime/base/interrupt.hpp>

#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/terminal_guard.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>

namespace hearth {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};

// Safe in a signal handler, unlike the clock of a ThreadContext.
std::chrono::nanoseconds steady_time() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// State that signal handlers access.
constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min();
static std::atomic<std::uint32_t> signal_count{0};
static std::atomic<std::int64_t> first_at_ns{kNone};  // first signal of the current request
static std::atomic<detail::InterruptClock> interrupt_clock{steady_time};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "a signal handler takes no lock");
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a signal handler takes no lock");
static_assert(std::atomic<detail::InterruptClock>::is_always_lock_free, "nor here");

extern "C" void count_signal(int signal) {
  const int error_number = errno;
  const std::int64_t now_ns = interrupt_clock.load(std::memory_order_acquire)().count();
  constexpr std::int64_t kPauseNs = std::chrono::nanoseconds(kInterruptPause).count();
  std::int64_t first_ns = kNone;
  if (first_at_ns.compare_exchange_strong(first_ns, now_ns, std::memory_order_acq_rel)) {
    signal_count.fetch_add(1, std::memory_order_acq_rel);  // partner: is_requested
  } else if (now_ns - first_ns >= kPauseNs) {  // negative if another thread's handler was faster
    struct sigaction ending {};
    ending.sa_handler = detail::ending_handler();
    sigaction(signal, &ending, nullptr);
    raise(signal);  // delivered when the handler returns
  }
  errno = error_number;
}

// Used instead of SIG_IGN, which a program started meanwhile would inherit.
extern "C" void pass_signal(int /*signal*/) {}

struct Scopes {
  struct Before {
    bool is_changed = false;
    struct sigaction action {};
  };

  detail::Mutex mutex;
  std::size_t count HEARTH_GUARDED_BY(mutex) = 0;
  std::array<Before, kSignals.size()> before HEARTH_GUARDED_BY(mutex){};
  Before before_pipe HEARTH_GUARDED_BY(mutex){};

  void install() HEARTH_REQUIRES(mutex) {
    first_at_ns.store(kNone, std::memory_order_release);  // partner: count_signal
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before[i].action);
      // A shell sets SIG_IGN for a job that is started with `&`.
      before[i].is_changed = before[i].action.sa_handler != SIG_IGN;
      if (before[i].is_changed) {
        handle(kSignals[i], count_signal);
      }
    }
    sigaction(SIGPIPE, nullptr, &before_pipe.action);
    before_pipe.is_changed = before_pipe.action.sa_handler == SIG_DFL;
    if (before_pipe.is_changed) {
      handle(SIGPIPE, pass_signal);
    }
  }
  void restore() HEARTH_REQUIRES(mutex) {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      restore_handler(kSignals[i], before[i]);
    }
    restore_handler(SIGPIPE, before_pipe);
  }

 private:
  static void handle(int signal, detail::SignalHandler handler) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
  static void restore_handler(int signal, Before& before) {
    if (before.is_changed) {
      sigaction(signal, &before.action, nullptr);
      before.is_changed = false;
    }
  }
};

// Never destroyed: a scope may end during static destruction.
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

detail::InterruptClock detail::exchange_interrupt_clock(InterruptClock clock) noexcept {
  return interrupt_clock.exchange(clock, std::memory_order_acq_rel);  // partner: count_signal
}

}  // namespace hearth
