// Pending<T>: a result that is not there yet; Promise<T>: the side that will fulfil it, exactly
// once. A value or an error travels from one producer to one reader through a counted state.
// Threads: each handle is used by one thread at a time; the two handles by different ones.
// Invariants: (1) a Promise that dies unfulfilled gives the error `cancelled`, so no reader waits
// for nothing; (2) the fulfilling thread never runs a continuation; (3) waking touches nothing that
// the reader may have freed.
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

/// When a wait ends without the result.
struct WaitOptions {
  /// Empty: as long as the device gets on, until the runtime's wait_limit (kDefaultWait where there
  /// is none) has passed and no op was done in it.
  std::optional<Deadline> deadline = {};
  /// The wait ends when somebody asks it to. The work goes on, and may be waited for again.
  std::stop_token stop = {};
};

namespace detail {
class PendingStateBase;

/// How a waiting thread can do the awaited work itself: where a device's work runs inline, its
/// reader borrows the device's token.
struct PendingHelper {
  /// Works towards state.is_ready() and returns when it is, when nothing is left to do here, or
  /// soon after the deadline.
  void (*help)(void* object, PendingStateBase& state, Deadline deadline) = nullptr;
  void* object = nullptr;
  /// Called for each further state that shares `object`, and when a state dies; null without one.
  void (*retain)(void* object) noexcept = nullptr;
  void (*release)(void* object) noexcept = nullptr;
  /// A number that changes whenever `object` gets on; null when nobody can say. Threads: any.
  std::uint64_t (*progress)(void* object) noexcept = nullptr;
  /// What `object` is at, or nothing, for the error of a wait that is over; null when nobody can
  /// say. Never waits. Threads: any.
  std::string (*observe)(void* object) = nullptr;
  std::string_view whom = {};  ///< Who is waited for, for reports; lives as long as `object`.
  IntrusivePtr<Watchdog> watchdog = {};  ///< Who reports when the deadline passes; may be null.
  /// Of a wait that names none: how long it goes on without progress, or in all when nobody can
  /// say whether there is any.
  std::chrono::nanoseconds limit = kDefaultWait;
  /// The work itself is given up then: a wait that names no deadline ends there. It still helps, so
  /// that it may end as late as the kernel that it runs.
  Deadline work_ends = Deadline::never();
};
}  // namespace detail

struct PendingOptions {
  std::string subject =
      "a result";  ///< What is waited for, for errors: "readback of f32[3] on cpu:0".
  detail::PendingHelper helper = {};
  SourceLoc location = {};       ///< The call that asked for it, for errors of the wait.
  std::uint32_t then_count = 0;  ///< So many continuations stand between it and the subject.
};

namespace detail {

/// The part of the shared state that does not know the value's type.
class PendingStateBase : public RefCounted<PendingStateBase> {
 public:
  explicit PendingStateBase(PendingOptions options) : options_(std::move(options)) {}
  PendingStateBase(const PendingStateBase&) = delete;
  PendingStateBase& operator=(const PendingStateBase&) = delete;
  virtual ~PendingStateBase();

  /// Whether value or error is there.
  [[nodiscard]] bool is_ready() const noexcept {
    // Partner: the store in complete(), which publishes the value or the error.
    return is_ready_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::string subject() const;
  /// Of the result of a continuation of this one: its waits report and end like those for this one.
  [[nodiscard]] PendingOptions options_of_then() const;
  /// When the work itself is given up.
  [[nodiscard]] Deadline work_ends() const noexcept { return options_.helper.work_ends; }
  /// Null for a value. Once ready.
  [[nodiscard]] const ErrorRef& error() const noexcept { return error_; }

  /// Helps, then parks, until the deadline or a stop; whether it is ready.
  bool wait(Deadline deadline, const std::stop_token& stop = {}) HEARTH_EXCLUDES(mutex_);
  /// The same until the default limit has passed without progress.
  bool wait_by_default(const std::stop_token& stop = {}) HEARTH_EXCLUDES(mutex_);
  /// Success, the stored error, deadline_exceeded, or cancelled when the stop came first.
  /// The stored error counts as read then.
  Status wait_status(Deadline deadline, const std::stop_token& stop = {});
  Status wait_status_by_default(const std::stop_token& stop = {});
  Status wait_status(const WaitOptions& options) {
    return options.deadline ? wait_status(*options.deadline, options.stop)
                            : wait_status_by_default(options.stop);
  }
  /// The same two, but the error does not count as read.
  Status peek_status(Deadline deadline);
  Status peek_status_by_default();

  /// Posts the task to the queue once ready. At most once per state.
  void on_ready(IntrusivePtr<ContinuationRunner::Queue> queue, UniqueFunction<void()> task)
      HEARTH_EXCLUDES(mutex_);

  /// Makes the state ready; the caller holds a handle and has stored the value.
  void complete() noexcept HEARTH_EXCLUDES(mutex_);
  void complete_with_error(ErrorRef error) noexcept;
  void cancel() noexcept;

 private:
  /// Whether it is ready, once the calling thread did what it could of the work.
  [[nodiscard]] bool is_ready_with_help(Deadline deadline, const std::stop_token& stop);
  [[nodiscard]] bool park_until(Deadline deadline, const std::stop_token& stop)
      HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t progress() const noexcept;
  /// The stored error, or success; it counts as read.
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
/// The exception being handled, as an error that somebody is still to read.
[[nodiscard]] ErrorRef error_of_current_exception();

}  // namespace detail

template <class T>
class Promise;
template <class T>
class PendingAwaiter;

template <class T>
class [[nodiscard]] Pending {
 public:
  /// Empty: every use but is_valid() throws ArgumentError.
  Pending() = default;
  Pending(Pending&&) noexcept = default;
  Pending& operator=(Pending&&) noexcept = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  ~Pending() = default;

  [[nodiscard]] bool is_valid() const noexcept { return state_ != nullptr; }
  [[nodiscard]] bool is_ready() const { return state().is_ready(); }

  /// The value. From a temporary it is moved out, else it stays and may be read again. Who is ready
  /// to wait ten seconds or more, without a stop, may meanwhile do an inline device's work itself,
  /// which is faster; a kernel that does not come back keeps that thread.
  ///
  /// Errors: what the producer stored, as the exception of its code (DeviceError, ...);
  /// DeadlineExceeded, within 1 ms of the deadline when the machine is not overloaded; DeviceError
  /// cancelled when the stop came first.
  /// Threads: any, but not one that holds a device's token.
  decltype(auto) get() & { return kept(state().wait_status_by_default()); }
  T get() && { return moved_out(state().wait_status_by_default()); }
  decltype(auto) get(const WaitOptions& options) & { return kept(state().wait_status(options)); }
  T get(const WaitOptions& options) && { return moved_out(state().wait_status(options)); }

  /// Success, or the error that get() would throw; throws for an empty Pending only.
  Status wait(const WaitOptions& options = {}) const { return state().wait_status(options); }

  /// The result of calling `function` with the value, on the runner's thread. An error skips the
  /// function and travels on; what the function throws becomes the result's error (worker_failed
  /// unless it is an Exception of ours).
  template <class F>
  auto then(ContinuationRunner& runner, F function) &&;

  /// For coroutines: `co_await std::move(pending).on(runner)` is the value, or throws what get()
  /// would. The coroutine goes on at once when the result is there, else on the runner's thread,
  /// never on the one that made the result.
  ///
  /// Lifetime: the runner outlives the wait; one that has ended resumes nobody. A coroutine that is
  /// destroyed while it waits is not resumed, and the work goes on; destroy it where it cannot be
  /// resumed at the same time.
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

  /// The reader's side. Call it once, before fulfilling.
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
/// What the library does with a Pending beside reading it.
struct PendingAccess {
  /// wait() for code that passes the error on: it does not count as read (FailureBook).
  template <class T>
  [[nodiscard]] static Status peek(const Pending<T>& pending) {
    return pending.state().peek_status_by_default();
  }
  template <class T>
  [[nodiscard]] static Status peek(const Pending<T>& pending, Deadline deadline) {
    return pending.state().peek_status(deadline);
  }
  /// Whether it is ready by then; its error does not count as read.
  template <class T>
  [[nodiscard]] static bool is_ready_by(const Pending<T>& pending,
                                        Deadline deadline,
                                        const std::stop_token& stop = {}) {
    return pending.state().wait(deadline, stop);
  }
  /// Calls `function` with the Pending once it is ready, on the runner's thread: as then(), with
  /// the error too. `function` must not throw; it is destroyed uncalled when the runner has ended.
  template <class T, class F>
  static void when_ready(Pending<T> pending, ContinuationRunner& runner, F function) {
    const IntrusivePtr<PendingState<T>> waited(
        &pending.state());  // lives until on_ready() is through
    waited->on_ready(runner.queue(),
                     [ready = std::move(pending), function = std::move(function)]() mutable {
                       std::move(function)(std::move(ready));
                     });
  }
};
}  // namespace detail

/// What `co_await` waits with; made by Pending::on(). Threads: the coroutine's.
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
    // The coroutine may be resumed, and this object gone, before on_ready() returns.
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
