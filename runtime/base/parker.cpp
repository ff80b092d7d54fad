#include <hearth/runtime/base/parker.hpp>

#include <hearth/runtime/base/thread_context.hpp>

#include <algorithm>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hearth {
namespace {

constexpr std::uint32_t kEmpty = 0;
constexpr std::uint32_t kParked = 1;
constexpr std::uint32_t kToken = 2;

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

}  // namespace

Deadline Deadline::in(Duration duration) noexcept {
  const TimePoint now = current_context().clock().now();
  return duration >= TimePoint::max() - now ? never() : at(now + duration);
}

bool Deadline::has_passed() const noexcept {
  return !is_never() && current_context().clock().now() >= time_;
}

Wake Parker::park(Deadline deadline) {
  HEARTH_ASSERT(&current_context().parker() == this, "a thread parked on another thread's parker");
  HEARTH_ASSERT(current_context().held_lock_count() == 0, "a Mutex is held across a park");
  // Both sides exchange the same word, so one of them sees the other: either this finds the token
  // of unpark(), or unpark() finds kParked. Acquire half: what the waker did before unpark() is
  // seen.
  if (state_.exchange(kParked, std::memory_order_acq_rel) == kToken) {
    state_.exchange(kEmpty, std::memory_order_acq_rel);
    return Wake::unparked;
  }
  if (logical_thread_ != nullptr) {
    logical_thread_->suspend(deadline);
    return state_.exchange(kEmpty, std::memory_order_acq_rel) == kToken ? Wake::unparked
                                                                        : Wake::deadline;
  }
  for (;;) {
    wait_on_futex(deadline);
    // Partner: the exchange in unpark().
    const bool is_unparked = state_.load(std::memory_order_acquire) == kToken;
    if (is_unparked || deadline.has_passed()) {
      // An unpark that comes between the load and this exchange counts as in time.
      return state_.exchange(kEmpty, std::memory_order_acq_rel) == kToken ? Wake::unparked
                                                                          : Wake::deadline;
    }
  }
}

void Parker::unpark() noexcept {
  // Partner: the exchanges in park().
  if (state_.exchange(kToken, std::memory_order_acq_rel) != kParked) {
    return;
  }
  if (logical_thread_ != nullptr) {
    logical_thread_->make_ready();
    return;
  }
  syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Parker::abandon() noexcept {
  logical_thread_ = nullptr;
  state_.exchange(kEmpty, std::memory_order_acq_rel);
}

void Parker::wait_on_futex(Deadline deadline) noexcept {
  std::timespec until{};
  if (!deadline.is_never()) {
    // The steady clock is CLOCK_MONOTONIC, which is what a futex takes as an absolute time.
    const auto since_start = std::max(deadline.time().time_since_epoch(), Duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_start);
    until.tv_sec = seconds.count();
    until.tv_nsec = (since_start - seconds).count();
  }
  syscall(SYS_futex,
          &state_,
          FUTEX_WAIT_BITSET_PRIVATE,
          kParked,
          deadline.is_never() ? nullptr : &until,
          nullptr,
          FUTEX_BITSET_MATCH_ANY);
}

}  // namespace hearth
