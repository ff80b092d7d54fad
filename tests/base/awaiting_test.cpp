// Other waits for a Pending: co_await, std::future, and until a stop token is triggered.
#include <hearth/runtime/base/pending.hpp>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/std_future.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <coroutine>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

using namespace hearth;

namespace {

ErrorRef failure(const char* text) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::kernel_failed, .text = text});
}

/// The smallest coroutine: starts at once, ends suspended, and is destroyed with its owner.
class Coroutine {
 public:
  struct promise_type {
    Coroutine get_return_object() {
      return Coroutine(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() { std::terminate(); }
  };
  explicit Coroutine(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Coroutine(Coroutine&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Coroutine& operator=(Coroutine&&) = delete;
  ~Coroutine() {
    if (handle_) {
      handle_.destroy();
    }
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

// Not inlined: g++ 12 takes the promise for one already fulfilled, and warns of its null.
[[gnu::noinline]] void fulfil(Promise<std::string>& promise, const char* value) {
  promise.set_value(value);
}

struct Outcome {
  std::string value;
  std::string error;
  std::thread::id thread;
};

/// Waits until the runner has run all earlier posts, so that their coroutine may be destroyed.
void drain(ContinuationRunner& runner) {
  Promise<int> marker;
  Pending<int> after = marker.pending().then(runner, [](int value) { return value; });
  marker.set_value(1);
  EXPECT_EQ(std::move(after).get(), 1);
}

Coroutine await_text(Pending<std::string> pending,
                     ContinuationRunner& runner,
                     Promise<Outcome> done) {
  Outcome outcome;
  try {
    outcome.value = co_await std::move(pending).on(runner);
  } catch (const DeviceError& error) {
    outcome.error = error.error().text;
  }
  outcome.thread = std::this_thread::get_id();
  done.set_value(std::move(outcome));
}

}  // namespace

TEST(Awaiting, ACoroutineGoesOnOnTheRunnersThread) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  Promise<std::string> promise;
  Promise<Outcome> done;
  Pending<Outcome> outcome = done.pending();
  const Coroutine coroutine = await_text(promise.pending(), runner, std::move(done));
  std::thread::id fulfiller;
  executor
      .spawn({.name = "fulfiller"},
             [&] {
               fulfiller = std::this_thread::get_id();
               fulfil(promise, "hello");
             })
      ->join();
  EXPECT_EQ(outcome.get().value, "hello");
  EXPECT_NE(outcome.get().thread, fulfiller) << "who makes the result never runs user code";
  EXPECT_NE(outcome.get().thread, std::this_thread::get_id());
  drain(runner);
}

TEST(Awaiting, AReadyResultDoesNotSuspend) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  Promise<std::string> promise;
  Pending<std::string> ready = promise.pending();
  fulfil(promise, "there");
  Promise<Outcome> done;
  Pending<Outcome> outcome = done.pending();
  const Coroutine coroutine = await_text(std::move(ready), runner, std::move(done));
  ASSERT_TRUE(outcome.is_ready());
  EXPECT_EQ(outcome.get().value, "there");
  EXPECT_EQ(outcome.get().thread, std::this_thread::get_id());
}

TEST(Awaiting, AnErrorIsThrownWhereTheCoroutineWaits) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  Promise<std::string> promise;
  Promise<Outcome> done;
  Pending<Outcome> outcome = done.pending();
  const Coroutine coroutine = await_text(promise.pending(), runner, std::move(done));
  promise.set_error(failure("row 3"));
  EXPECT_EQ(outcome.get().error, "row 3");
  drain(runner);
}

TEST(Awaiting, APromiseThatDiesResumesWithCancelled) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  auto promise = std::make_unique<Promise<std::string>>(PendingOptions{.subject = "the loss"});
  Promise<Outcome> done;
  Pending<Outcome> outcome = done.pending();
  const Coroutine coroutine = await_text(promise->pending(), runner, std::move(done));
  promise.reset();
  EXPECT_EQ(outcome.get().error, "the loss was abandoned before it had a result");
  drain(runner);
}

TEST(Awaiting, ACoroutineThatWasDroppedIsNotResumed) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  Promise<std::string> promise;
  Promise<Outcome> done;
  const Pending<Outcome> outcome = done.pending();
  { const Coroutine dropped = await_text(promise.pending(), runner, std::move(done)); }
  ASSERT_TRUE(outcome.is_ready()) << "its frame, which held the promise, is gone";
  EXPECT_EQ(outcome.wait().error().code, ErrorCode::cancelled);
  fulfil(promise, "nobody hears this");
  drain(runner);  // the dropped continuation's turn is over
}

TEST(Awaiting, CoroutinesAreResumedWhileOthersFulfilAndLeave) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  for (int i = 0; i < 2000; ++i) {
    Promise<std::string> promise;
    Promise<Outcome> done;
    Pending<Outcome> outcome = done.pending();
    Pending<std::string> pending = promise.pending();
    const auto fulfiller = executor.spawn(
        {.name = "fulfiller"}, [promise = std::move(promise)]() mutable { fulfil(promise, "x"); });
    const Coroutine coroutine = await_text(std::move(pending), runner, std::move(done));
    ASSERT_EQ(outcome.get().value, "x");
    drain(runner);
    fulfiller->join();
  }
}

// ---- std::future ----

TEST(StdFuture, GivesTheValueOrThrowsTheError) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  Promise<std::unique_ptr<int>> good;
  Promise<void> nothing;
  Promise<int> bad;
  auto value = as_std_future(good.pending(), runner);
  auto done = as_std_future(nothing.pending(), runner);
  auto error = as_std_future(bad.pending(), runner);
  good.set_value(std::make_unique<int>(7));
  nothing.set_value();
  bad.set_error(failure("row 3"));
  EXPECT_EQ(*value.get(), 7);
  EXPECT_NO_THROW(done.get());
  try {
    error.get();
    FAIL() << "no error";
  } catch (const DeviceError& exception) {
    EXPECT_EQ(exception.code(), ErrorCode::kernel_failed);
    EXPECT_EQ(exception.error().text, "row 3");
  }
}

TEST(StdFuture, HearsCancelledFromADeadPromiseAndFromARunnerThatEnded) {
  ThreadExecutor executor;
  const auto code_of = [](auto future) {
    try {
      if (future.wait_for(std::chrono::seconds(60)) == std::future_status::ready) {
        future.get();
      }
    } catch (const DeviceError& error) {
      return error.code();
    }
    return ErrorCode::internal;
  };
  Promise<int> late;
  auto of_late = [&] {
    ContinuationRunner runner(executor);
    Pending<int> abandoned = Promise<int>().pending();
    EXPECT_EQ(code_of(as_std_future(std::move(abandoned), runner)), ErrorCode::cancelled);
    return as_std_future(late.pending(), runner);
  }();
  late.set_value(1);
  EXPECT_EQ(code_of(std::move(of_late)), ErrorCode::cancelled);
}

// ---- stop ----

TEST(StopToken, AStopEndsTheWaitAndLeavesTheResultToBeReadLater) {
  ManualExecutor executor;
  executor.run([&] {
    Promise<int> promise({.subject = "the loss"});
    Pending<int> pending = promise.pending();
    std::stop_source source;
    const auto stopper = executor.spawn({.name = "stopper"}, [&] { source.request_stop(); });
    try {
      pending.get({.stop = source.get_token()});
      FAIL() << "the wait went on";
    } catch (const DeviceError& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
      EXPECT_EQ(error.error().text, "the wait for the loss was cancelled");
    }
    EXPECT_EQ(executor.clock().now().time_since_epoch(), std::chrono::nanoseconds::zero())
        << "not at a deadline";
    stopper->join();
    promise.set_value(4);
    EXPECT_EQ(pending.get({.stop = source.get_token()}), 4)
        << "what is there is given, stop or no stop";
  });
}

TEST(StopToken, AWaitThatNobodyStopsEndsWithTheResultOrTheDeadline) {
  ManualExecutor executor;
  executor.run([&] {
    Promise<int> promise;
    Pending<int> pending = promise.pending();
    std::stop_source source;
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(
        pending, Deadline::in(std::chrono::seconds(1)), source.get_token()));
    EXPECT_THROW(pending.get({.deadline = Deadline::in(std::chrono::nanoseconds::zero()),
                              .stop = source.get_token()}),
                 DeadlineExceeded);
    const auto fulfiller = executor.spawn({.name = "fulfiller"}, [&] { promise.set_value(3); });
    EXPECT_EQ(std::move(pending).get({.stop = source.get_token()}), 3);
    fulfiller->join();
  });
}

TEST(StopToken, WaitForReturnsEarlyWhenStopped) {
  ThreadExecutor executor;
  const Promise<int> promise;
  const Pending<int> pending = promise.pending();
  std::stop_source source;
  const auto stopper = executor.spawn({.name = "stopper"}, [&] { source.request_stop(); });
  EXPECT_FALSE(detail::PendingAccess::is_ready_by(
      pending, Deadline::in(std::chrono::hours(1)), source.get_token()));
  stopper->join();
}
