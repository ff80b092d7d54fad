#include <hearth/runtime/base/standby_crew.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {
namespace {

// Pauses between two clock reads, each followed by a yield to other threads: about 8 µs.
constexpr int kPauses = 160;
// Hindrances within this time count as one.
constexpr std::chrono::nanoseconds kMoment = std::chrono::milliseconds(2);
// The caller spins this long for a started share, then yields.
constexpr int kWaitPauses = 2000;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

// One thread of the crew, and the state word that it exchanges with the caller. The caller writes
// the share before it stores `offered`, and reads the results after it loads `ready`.
class StandbyCrew::Seat {
 public:
  Seat() = default;
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;
  ~Seat() {
    if (!thread_) {
      return;
    }
    // Either this load sees the parker, or serve(), which stores its parker first, sees `over`.
    state_.store(State::over, std::memory_order_seq_cst);  // partner: serve
    if (detail::Parker* parker = parker_.load(std::memory_order_seq_cst)) {
      parker->unpark();
    }
    thread_->join();
  }

  [[nodiscard]] bool is_ready() const noexcept {
    return state_.load(std::memory_order_acquire) == State::ready;  // partner: serve
  }
  /// Returns, once, whether the thread went to sleep because other threads needed its core.
  [[nodiscard]] bool take_preempted() noexcept {
    return was_preempted_.load(std::memory_order_relaxed) &&
           was_preempted_.exchange(false, std::memory_order_acq_rel);
  }

  /// Errors: those of Executor::spawn.
  void wake(detail::Executor& executor, const std::vector<int>& cores) {
    State asleep = State::asleep;
    if (!state_.compare_exchange_strong(
            asleep, State::waking, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return;
    }
    if (detail::Parker* parker = parker_.load(std::memory_order_acquire)) {
      parker->unpark();
      return;
    }
    try {
      thread_ = executor.spawn({.name = "standby", .cores = cores}, [this] { serve(); });
    } catch (...) {
      state_.store(State::asleep, std::memory_order_release);
      throw;
    }
  }

  /// Returns false if the thread sleeps or is about to.
  [[nodiscard]] bool offer(Share share, const void* context, int index, int count) noexcept {
    share_ = share;
    context_ = context;
    index_ = index;
    count_ = count;
    State ready = State::ready;
    return state_.compare_exchange_strong(  // partner: serve
        ready,
        State::offered,
        std::memory_order_acq_rel,
        std::memory_order_acquire);
  }
  /// Returns true if the share had not begun; it is then withdrawn. Returns false once it has
  /// ended.
  [[nodiscard]] bool withdraw_or_wait() noexcept {
    State offered = State::offered;
    if (state_.compare_exchange_strong(
            offered, State::ready, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
    // Bounded: a share is a part of a kernel, which ends.
    for (int i = 0; state_.load(std::memory_order_acquire) == State::taken; ++i) {
      if (i < kWaitPauses) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
    return false;
  }

 private:
  enum class State : std::uint8_t { asleep, waking, ready, offered, taken, over };

  void serve() noexcept {
    own_parker_ = IntrusivePtr<detail::Parker>(&detail::current_context().parker());
    parker_.store(own_parker_.get(), std::memory_order_seq_cst);  // partner: ~Seat
    while (true) {
      State waking = State::waking;
      if (state_.compare_exchange_strong(
              waking, State::ready, std::memory_order_seq_cst, std::memory_order_seq_cst)) {
        stand_by();
      } else if (waking == State::over) {
        return;
      } else {
        detail::current_context().parker().park(Deadline::never());
      }
    }
  }

  // Takes shares until `over`, or until it was idle for a while or other threads need the core;
  // then it is asleep.
  void stand_by() noexcept {
    const detail::Clock& clock = detail::current_context().clock();
    detail::TimePoint seen = clock.now();
    detail::TimePoint idle_since = seen;
    while (true) {
      for (int i = 0; i < kPauses; ++i) {
        State state = state_.load(std::memory_order_acquire);
        if (state == State::over) {
          return;
        }
        if (state == State::offered &&
            state_.compare_exchange_strong(
                state, State::taken, std::memory_order_acq_rel, std::memory_order_acquire)) {
          share_(context_, index_, count_);
          state_.store(State::ready, std::memory_order_release);  // partner: withdraw_or_wait
          seen = idle_since = clock.now();
        }
        pause();
      }
      std::this_thread::yield();
      const detail::TimePoint now = clock.now();
      const bool was_preempted = now - seen > kPreemptedAfter;
      seen = now;
      if (!was_preempted && now - idle_since < kLinger) {
        continue;
      }
      State ready = State::ready;
      if (state_.compare_exchange_strong(
              ready, State::asleep, std::memory_order_acq_rel, std::memory_order_acquire)) {
        was_preempted_.store(was_preempted, std::memory_order_release);
        return;
      }
    }
  }

  alignas(64) std::atomic<State> state_{State::asleep};
  Share share_ = nullptr;
  const void* context_ = nullptr;
  int index_ = 0;
  int count_ = 0;
  std::atomic<bool> was_preempted_{false};
  std::atomic<detail::Parker*> parker_{nullptr};
  IntrusivePtr<detail::Parker> own_parker_;
  std::unique_ptr<detail::Joinable> thread_;
};

StandbyCrew::StandbyCrew(detail::Executor& executor, std::vector<int> cores, int size)
    : executor_(executor), cores_(std::move(cores)) {
  for (int i = 0; i < size; ++i) {
    seats_.push_back(std::make_unique<Seat>());
  }
}

StandbyCrew::~StandbyCrew() = default;

int StandbyCrew::request_threads() noexcept {
  const detail::TimePoint now = detail::current_context().clock().now();
  request_count_ = now - last_request_ < kGap ? std::min(request_count_ + 1, kBurst) : 1;
  last_request_ = now;
  int count = 1;
  for (const std::unique_ptr<Seat>& seat : seats_) {
    if (seat->is_ready()) {
      ++count;
    } else if (seat->take_preempted()) {
      sleep_time_ =
          now - sleeps_until_ < kMoment ? std::min(2 * sleep_time_, kLongSleep) : kShortSleep;
      sleeps_until_ = now + sleep_time_;
    }
  }
  if (count == 1 && request_count_ == kBurst && now >= sleeps_until_) {
    wake();
  }
  return count;
}

void StandbyCrew::wake() noexcept {
  try {
    for (const std::unique_ptr<Seat>& seat : seats_) {
      seat->wake(executor_, cores_);
    }
  } catch (const std::exception& refused) {
    detail::Log().warn(fmt::format("short kernels stay on one core: {}", refused.what()));
    seats_.clear();
  }
}

void StandbyCrew::run(int count, Share share, const void* context) noexcept {
  HEARTH_ASSERT(count >= 1 && count <= 1 + static_cast<int>(seats_.size()),
                "more shares than threads");
  // Share i always goes to the same thread, whose cache may still hold its part of the weights.
  std::uint64_t offered = 0;
  for (int i = 1; i < count; ++i) {
    if (seats_[static_cast<std::size_t>(i - 1)]->offer(share, context, i, count)) {
      offered |= std::uint64_t{1} << static_cast<unsigned>(i);
    }
  }
  share(context, 0, count);
  for (int i = 1; i < count; ++i) {
    const bool was_offered = (offered >> static_cast<unsigned>(i) & 1U) != 0;
    if (!was_offered || seats_[static_cast<std::size_t>(i - 1)]->withdraw_or_wait()) {
      share(context, i, count);
    }
  }
}

}  // namespace hearth
