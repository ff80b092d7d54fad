// Pending<T>: a result that is not available yet; Promise<T>: the side that fulfils it, exactly
// once. A value or an error travels from one producer to one reader through a counted state.
// Threads: each handle is used by one thread at a time; the two handles by different ones.
// Invariants: (1) a Promise that dies unfulfilled stores the error `cancelled`, so no reader waits
// in vain; (2) the fulfilling thread never runs a continuation; (3) waking a reader touches nothing
// that the reader may have freed.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <hearth/runtime/base/continuation_runner.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/runtime/base/wait_list.hpp>
#include <hearth/runtime/base/watchdog.hpp>

namespace hearth {

/// Ends a wait without the result.
struct WaitOptions {
  /// Time at which the wait ends. Empty: as long as the device makes progress; the wait ends once
  /// the runtime's wait_limit (default kDefaultWait) passes without a finished op.
  std::optional<Deadline> deadline = {};
  /// Ends the wait on a stop request. The work continues and can be waited for again.
  std::stop_token stop = {};
};

namespace detail {
class PendingStateBase;

/// Lets a waiting thread do the awaited work itself: if a device runs its work inline, the reader
/// borrows the device's token.
struct PendingHelper {
  /// Works towards state.is_ready(). Returns when it is ready, when no work is left here, or soon
  /// after the deadline.
  void (*help)(void* object, PendingStateBase& state, Deadline deadline) = nullptr;
  void* object = nullptr;
  /// Called for each further state that shares `object`, and when a state dies; null without an
  /// object.
  void (*retain)(void* object) noexcept = nullptr;
  void (*release)(void* object) noexcept = nullptr;
  /// Returns a number that changes with each progress of `object`; null if progress is unknown.
  /// Threads: any.
  std::uint64_t (*progress)(void* object) noexcept = nullptr;
  /// Returns the current activity of `object`, or an empty text, for the error of a wait; null if
  /// it is unknown. Never waits. Threads: any.
  std::string (*observe)(void* object) = nullptr;
  /// Name of the awaited object for reports; lives as long as `object`.
  std::string_view awaited_name = {};
  /// Makes the report when the deadline passes; may be null.
  IntrusivePtr<Watchdog> watchdog = {};
  /// Limit of a wait without a deadline: the time without progress, or the total time if progress
  /// is unknown.
  std::chrono::nanoseconds limit = kDefaultWait;
  /// Time at which the work itself is abandoned; a wait without a deadline ends there. The wait
  /// still helps, so it may end as late as the kernel that it runs.
  Deadline work_ends = Deadline::never();
};
}  // namespace detail

struct PendingOptions {
  std::string subject = "a result";  ///< Awaited result, for errors: "readback of f32[3] on cpu:0".
  detail::PendingHelper helper = {};
  SourceLoc location = {};       ///< The call that requested the result, for errors of the wait.
  std::uint32_t then_count = 0;  ///< Number of continuations between this result and the subject.
};

namespace detail {

/// The part of the shared state that is independent of the value's type.
class PendingStateBase : public RefCounted<PendingStateBase> {
 public:
  explicit PendingStateBase(PendingOptions options) : options_(std::move(options)) {}
  PendingStateBase(const PendingStateBase&) = delete;
  PendingStateBase& operator=(const PendingStateBase&) = delete;
  virtual ~PendingStateBase();

  /// Returns whether the value or the error is stored.
  [[nodiscard]] bool is_ready() const noexcept {
    // Partner: the store in complete(), which publishes the value or the error.
    return is_ready_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::string subject() const;
  /// Returns the options of a continuation's result: its waits report and end like those for this
  /// one.
  [[nodiscard]] PendingOptions options_of_then() const;
  /// Returns when the work itself is abandoned.
  [[nodiscard]] Deadline work_ends() const noexcept { return options_.helper.work_ends; }
  /// Returns null for a value. Requires is_ready().
  [[nodiscard]] const ErrorRef& error() const noexcept { return error_; }

  /// Helps, then parks, until the deadline or a stop. Returns whether the state is ready.
  bool wait(Deadline deadline, const std::stop_token& stop = {}) HEARTH_EXCLUDES(mutex_);
  /// Waits until the default limit passes without progress. Returns whether the state is ready.
  bool wait_by_default(const std::stop_token& stop = {}) HEARTH_EXCLUDES(mutex_);
  /// Waits. Returns success, the stored error, deadline_exceeded, or cancelled if the stop came
  /// first. Marks the stored error as read.
  Status wait_status(Deadline deadline, const std::stop_token& stop = {});
  Status wait_status_by_default(const std::stop_token& stop = {});
  Status wait_status(const WaitOptions& options) {
    return options.deadline ? wait_status(*options.deadline, options.stop)
                            : wait_status_by_default(options.stop);
  }
  /// Like wait_status(), but does not mark the error as read.
  Status peek_status(Deadline deadline);
  Status peek_status_by_default();

  /// Posts the task to the queue once ready. At most once per state.
  void on_ready(IntrusivePtr<ContinuationRunner::Queue> queue, UniqueFunction<void()> task)
      HEARTH_EXCLUDES(mutex_);

  /// Makes the state ready. The caller holds a handle and has stored the value.
  void complete() noexcept HEARTH_EXCLUDES(mutex_);
  void complete_with_error(ErrorRef error) noexcept;
  void cancel() noexcept;

 private:
  /// Does what the calling thread can of the work. Returns whether the state is ready.
  [[nodiscard]] bool is_ready_with_help(Deadline deadline, const std::stop_token& stop);
  [[nodiscard]] bool park_until(Deadline deadline, const std::stop_token& stop)
      HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t progress() const noexcept;
  /// Returns the stored error, marked as read, or success.
  [[nodiscard]] Status read_status() const;
  [[nodiscard]] Error wait_error(const std::stop_token& stop) const;

  PendingOptions options_;
  std::atomic<bool> is_ready_{false};
  ErrorRef error_;
  Mutex mutex_;
  WaitList waiters_ HEARTH_GUARDED_BY(mutex_);
  IntrusivePtr<ContinuationRunner::Queue> queue_ HEARTH_GUARDED_BY(mutex_);
  UniqueFunction<void()> task_ HEARTH_GUARDED_BY(mutex_);
};

struct NoValue {};
template <class T>
using PendingValue = std::conditional_t<std::is_void_v<T>, NoValue, T>;

template <class T>
class PendingState final : public PendingStateBase {
 public:
  using PendingStateBase::PendingStateBase;
  std::optional<PendingValue<T>> value;
};

struct PendingAccess;
[[noreturn]] void throw_empty_pending();
/// Returns the exception being handled as an unread error.
[[nodiscard]] ErrorRef error_of_current_exception();

}  // namespace detail

template <class T>
class Promise;
template <class T>
class PendingAwaiter;

template <class T>
class [[nodiscard]] Pending {
 public:
  /// Makes an empty handle: every use but is_valid() throws ArgumentError.
  Pending() = default;
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&&) noexcept = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() = default;

  [[nodiscard]] bool is_valid() const noexcept { return state_ != nullptr; }
  [[nodiscard]] bool is_ready() const { return state().is_ready(); }

  /// Waits for the value. A temporary Pending moves it out; otherwise it stays and may be read
  /// again. With ten seconds or more to wait, and no stop token, the calling thread may do an
  /// inline device's work itself, which is faster. A kernel that does not return then blocks that
  /// thread.
  ///
  /// Errors: the producer's error, as the exception of its code (DeviceError, ...);
  /// DeadlineExceeded, within 1 ms of the deadline if the machine is not overloaded; DeviceError
  /// cancelled if the stop came first.
  /// Threads: any, but not one that holds a device's token.
  decltype(auto) get() & { return kept(state().wait_status_by_default()); }
  T get() && { return moved_out(state().wait_status_by_default()); }
  decltype(auto) get(const WaitOptions& options) & { return kept(state().wait_status(options)); }
  T get(const WaitOptions& options) && { return moved_out(state().wait_status(options)); }

  /// Returns success, or the error that get() would throw. Throws only for an empty Pending.
  Status wait(const WaitOptions& options = {}) const { return state().wait_status(options); }

  /// Calls `function` with the value on the runner's thread. Returns the pending result. An error
  /// skips the function and is passed on. An exception of the function becomes the result's error
  /// (worker_failed unless it is an Exception of the library).
  template <class F>
  auto then(ContinuationRunner& runner, F function) &&;

  /// Makes the result awaitable: `co_await std::move(pending).on(runner)` returns the value, or
  /// throws what get() would. The coroutine continues at once if the result is ready, else on the
  /// runner's thread, never on the thread that made the result.
  ///
  /// Lifetime: the runner outlives the wait; a runner that has ended resumes no coroutine. A
  /// coroutine that is destroyed while it waits is not resumed, and the work continues. Destroy it
  /// only where it cannot be resumed at the same time.
  [[nodiscard]] PendingAwaiter<T> on(ContinuationRunner& runner) &&;

 private:
  friend class Promise<T>;
  friend class PendingAwaiter<T>;
  friend struct detail::PendingAccess;
  explicit Pending(IntrusivePtr<detail::PendingState<T>> state) : state_(std::move(state)) {}
  detail::PendingState<T>& state() const {
    if (!state_) {
      detail::throw_empty_pending();
    }
    return *state_;
  }
  decltype(auto) kept(const Status& status) const {
    status.value();
    if constexpr (!std::is_void_v<T>) {
      return static_cast<const T&>(*state_->value);
    }
  }
  T moved_out(const Status& status) {
    status.value();
    const auto state = std::exchange(state_, nullptr);
    if constexpr (!std::is_void_v<T>) {
      return std::move(*state->value);
    }
  }

  IntrusivePtr<detail::PendingState<T>> state_;
};

template <class T>
class Promise {
 public:
  explicit Promise(PendingOptions options = {})
      : state_(make_intrusive<detail::PendingState<T>>(std::move(options))) {}
  Promise(Promise&&) noexcept = default;
  Promise& operator=(Promise&& other) noexcept {
    if (this != &other) {
      abandon();
      state_ = std::move(other.state_);
    }
    return *this;
  }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;
  ~Promise() { abandon(); }

  /// Returns the reader's side. Call it once, before fulfilling.
  [[nodiscard]] Pending<T> pending() const { return Pending<T>(state_); }
  [[nodiscard]] bool is_fulfilled() const noexcept { return state_ == nullptr; }

  template <class... Args>
  void set_value(Args&&... args) {
    HEARTH_ASSERT(state_ != nullptr, "a promise was fulfilled twice");
    state_->value.emplace(std::forward<Args>(args)...);
    std::exchange(state_, nullptr)->complete();
  }
  void set_error(ErrorRef error) {
    HEARTH_ASSERT(state_ != nullptr, "a promise was fulfilled twice");
    std::exchange(state_, nullptr)->complete_with_error(std::move(error));
  }

 private:
  void abandon() noexcept {
    if (auto state = std::exchange(state_, nullptr)) {
      state->cancel();
    }
  }

  IntrusivePtr<detail::PendingState<T>> state_;
};

template <class T>
template <class F>
auto Pending<T>::then(ContinuationRunner& runner, F function) && {
  using Value = detail::PendingValue<T>;
  auto call = [function = std::move(function)](Value& value) mutable -> decltype(auto) {
    if constexpr (std::is_void_v<T>) {
      static_cast<void>(value);
      return std::move(function)();
    } else {
      return std::move(function)(std::move(value));
    }
  };
  using U = std::decay_t<std::invoke_result_t<decltype(call)&, Value&>>;
  state();
  auto source = std::exchange(state_, nullptr);
  Promise<U> promise(source->options_of_then());
  Pending<U> result = promise.pending();
  detail::PendingState<T>& waited = *source;
  waited.on_ready(
      runner.queue(),
      [source = std::move(source), promise = std::move(promise), call = std::move(call)]() mutable {
        if (source->error()) {
          promise.set_error(source->error());
          return;
        }
        try {
          if constexpr (std::is_void_v<U>) {
            call(*source->value);
            promise.set_value();
          } else {
            promise.set_value(call(*source->value));
          }
        } catch (...) {
          promise.set_error(detail::error_of_current_exception());
        }
      });
  return result;
}

namespace detail {
/// Access of the library to a Pending, beyond reading it.
struct PendingAccess {
  /// Waits for code that passes the error on: does not mark it as read (FailureBook).
  template <class T>
  [[nodiscard]] static Status peek(const Pending<T>& pending) {
    return pending.state().peek_status_by_default();
  }
  template <class T>
  [[nodiscard]] static Status peek(const Pending<T>& pending, Deadline deadline) {
    return pending.state().peek_status(deadline);
  }
  /// Waits until the deadline or a stop. Returns whether the result is ready. Does not mark its
  /// error as read.
  template <class T>
  [[nodiscard]] static bool is_ready_by(const Pending<T>& pending,
                                        Deadline deadline,
                                        const std::stop_token& stop = {}) {
    return pending.state().wait(deadline, stop);
  }
  /// Calls `function` with the Pending once it is ready, on the runner's thread, also for an error.
  /// `function` must not throw. It is destroyed uncalled if the runner has ended.
  template <class T, class F>
  static void when_ready(Pending<T> pending, ContinuationRunner& runner, F function) {
    const IntrusivePtr<PendingState<T>> waited(
        &pending.state());  // kept alive until on_ready() returns
    waited->on_ready(runner.queue(),
                     [ready = std::move(pending), function = std::move(function)]() mutable {
                       std::move(function)(std::move(ready));
                     });
  }
};
}  // namespace detail

/// Awaiter of `co_await`; made by Pending::on(). Threads: the coroutine's.
template <class T>
class [[nodiscard]] PendingAwaiter final {
 public:
  PendingAwaiter(Pending<T> pending, ContinuationRunner& runner)
      : pending_(std::move(pending)), runner_(&runner) {}
  PendingAwaiter(const PendingAwaiter&) = delete;
  PendingAwaiter& operator=(const PendingAwaiter&) = delete;
  ~PendingAwaiter() {
    if (is_over_) {
      is_over_->exchange(true, std::memory_order_acq_rel);  // partner: the task's exchange
    }
  }

  [[nodiscard]] bool await_ready() const { return pending_.is_ready(); }
  template <class Handle>
  void await_suspend(Handle coroutine) {
    // The coroutine may be resumed, and this object destroyed, before on_ready() returns.
    const IntrusivePtr<detail::PendingState<T>> waited(&pending_.state());
    is_over_ = std::make_shared<std::atomic<bool>>(false);
    waited->on_ready(runner_->queue(), [coroutine, is_over = is_over_]() mutable {
      if (!is_over->exchange(true, std::memory_order_acq_rel)) {  // partner: the destructor
        coroutine.resume();
      }
    });
  }
  T await_resume() {
    return std::move(pending_).get({.deadline = Deadline::in(std::chrono::nanoseconds::zero())});
  }

 private:
  Pending<T> pending_;
  ContinuationRunner* runner_;
  std::shared_ptr<std::atomic<bool>> is_over_;  ///< Resumed, or no longer waiting.
};

template <class T>
PendingAwaiter<T> Pending<T>::on(ContinuationRunner& runner) && {
  return PendingAwaiter<T>(std::move(*this), runner);
}

}  // namespace hearth
