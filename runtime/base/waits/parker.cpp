#include <hearth/runtime/base/parker.hpp>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/standstill.hpp>
#include <hearth/runtime/base/thread_context.hpp>

#include <algorithm>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hearth::detail {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

}  // namespace

Wake Parker::park(Deadline deadline) {
  HEARTH_ASSERT(&current_context().parker() == this, "a thread parked on another thread's parker");
  HEARTH_ASSERT(current_context().held_lock_count() == 0, "a Mutex is held across a park");
  if (!state_.announce()) {
    return Wake::unparked;
  }
  if (logical_thread_ != nullptr) {
    logical_thread_->suspend(deadline);
    return state_.finish() ? Wake::unparked : Wake::deadline;
  }
  for (;;) {
    wait_on_futex(deadline);
    if (state_.has_token() || deadline.has_passed()) {
      // An unpark between these two checks counts as in time.
      return state_.finish() ? Wake::unparked : Wake::deadline;
    }
  }
}

void Parker::unpark() noexcept {
  if (!state_.leave_token()) {
    return;
  }
  if (logical_thread_ != nullptr) {
    logical_thread_->make_ready();
    return;
  }
  syscall(SYS_futex, &state_.word(), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void Parker::abandon() noexcept {
  logical_thread_ = nullptr;
  static_cast<void>(state_.finish());
}

void Parker::wait_on_futex(Deadline deadline) noexcept {
  const auto wait = [this](const std::timespec* until) noexcept {
    syscall(SYS_futex,
            &state_.word(),
            FUTEX_WAIT_BITSET_PRIVATE,
            ParkWord<StdAtomics>::kParked,
            until,
            nullptr,
            FUTEX_BITSET_MATCH_ANY);
  };
  if (deadline.is_never()) {
    wait(nullptr);
    return;
  }
  const Clock& clock = current_context().clock();
  const TimePoint now = clock.now();
  // The steady clock is CLOCK_MONOTONIC, which a futex accepts as an absolute time.
  const std::chrono::nanoseconds wake =
      now.time_since_epoch() + std::min(deadline.left(), Standstill::kBeat);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(wake);
  const std::timespec until{.tv_sec = seconds.count(), .tv_nsec = (wake - seconds).count()};
  process_standstill().begin_sleep(now);
  wait(&until);
  process_standstill().end_sleep(clock.now());
}

}  // namespace hearth::detail
