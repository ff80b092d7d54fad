#include <hearth/runtime/base/pending.hpp>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <memory>
#include <string>

#include <gtest/gtest.h>

using namespace hearth;

namespace {

ErrorRef failed(const char* text) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::kernel_failed, .text = text});
}

template <class T>
ErrorCode code_of(Pending<T> pending) {
  try {
    std::move(pending).get();
  } catch (const Exception& exception) {
    return exception.code();
  }
  ADD_FAILURE() << "no error";
  return ErrorCode::internal;
}

}  // namespace

TEST(Pending, GivesTheValueAgainAndAgainUntilItIsMovedOut) {
  Promise<std::string> promise;
  Pending<std::string> pending = promise.pending();
  EXPECT_FALSE(pending.is_ready());
  promise.set_value("hello");
  EXPECT_TRUE(pending.is_ready());
  EXPECT_EQ(pending.get(), "hello");
  EXPECT_EQ(pending.get(), "hello");
  EXPECT_EQ(std::move(pending).get(), "hello");
  EXPECT_FALSE(pending.is_valid());  // NOLINT(bugprone-use-after-move)
}

TEST(Pending, CarriesWhatCanOnlyBeMoved) {
  Promise<std::unique_ptr<int>> promise;
  Pending<std::unique_ptr<int>> pending = promise.pending();
  promise.set_value(std::make_unique<int>(5));
  const std::unique_ptr<int> value = std::move(pending).get();
  EXPECT_EQ(*value, 5);
}

TEST(Pending, ThrowsTheStoredErrorAtEachGet) {
  Promise<int> promise;
  Pending<int> pending = promise.pending();
  promise.set_error(failed("row 3"));
  EXPECT_THROW(pending.get(), DeviceError);
  EXPECT_THROW(pending.get(), DeviceError);
  EXPECT_EQ(pending.wait().error().text, "row 3");
}

TEST(Pending, AnEmptyOneThrowsAnArgumentError) {
  Pending<int> pending;
  EXPECT_FALSE(pending.is_valid());
  EXPECT_THROW(pending.get(), ArgumentError);
  EXPECT_THROW(static_cast<void>(pending.is_ready()), ArgumentError);
}

TEST(Pending, APromiseThatDiesGivesCancelled) {
  Pending<int> pending;
  { pending = Promise<int>({.subject = "the loss"}).pending(); }
  const Status status = pending.wait();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::cancelled);
  EXPECT_EQ(status.error().text, "the loss was abandoned before it had a result");
}

TEST(Pending, APromiseThatIsAssignedToGivesCancelled) {
  Promise<int> promise;
  const Pending<int> pending = promise.pending();
  promise = Promise<int>();
  EXPECT_TRUE(pending.is_ready());
  EXPECT_EQ(pending.wait().error().code, ErrorCode::cancelled);
}

TEST(Pending, AGetPastItsDeadlineNamesWhatItWaitedFor) {
  Promise<int> promise({.subject = "readback of f32[3] on cpu:0"});
  Pending<int> pending = promise.pending();
  try {
    pending.get({.deadline = Deadline::in(std::chrono::nanoseconds::zero())});
    FAIL() << "no error";
  } catch (const DeadlineExceeded& exception) {
    EXPECT_EQ(exception.error().text,
              "the deadline passed while waiting for readback of f32[3] on cpu:0");
  }
  promise.set_value(4);
  EXPECT_EQ(pending.get(), 4);
}

TEST(Pending, AGetWithoutADeadlineGivesUpAfterTheDefaultWait) {
  ManualExecutor executor;
  executor.run([&] {
    const Promise<int> promise;
    EXPECT_EQ(code_of(promise.pending()), ErrorCode::deadline_exceeded);
    EXPECT_EQ(executor.clock().now().time_since_epoch(), kDefaultWait);
  });
}

TEST(Pending, WaitForTellsWhetherItIsReady) {
  Promise<void> promise;
  Pending<void> pending = promise.pending();
  EXPECT_FALSE(
      detail::PendingAccess::is_ready_by(pending, Deadline::in(std::chrono::nanoseconds::zero())));
  promise.set_value();
  EXPECT_TRUE(
      detail::PendingAccess::is_ready_by(pending, Deadline::in(std::chrono::nanoseconds::zero())));
  EXPECT_NO_THROW(pending.get());
}

TEST(Pending, IsReadByAThreadThatWaitedForAnother) {
  ThreadExecutor executor;
  for (int i = 0; i < 2000; ++i) {
    Promise<int> promise;
    Pending<int> pending = promise.pending();
    const auto reader = executor.spawn(
        {.name = "reader"},
        [pending = std::move(pending), i]() mutable { EXPECT_EQ(pending.get(), i); });
    promise.set_value(i);
  }
}

TEST(Pending, AWaitingThreadHelpsBeforeItParks) {
  struct Work {
    Promise<int> promise;
    int calls = 0;
    bool was_released = false;
  };
  Work work{.promise = Promise<int>({.helper = {}})};
  work.promise = Promise<int>({
      .subject = "work",
      .helper = {
          .help =
              [](void* object, detail::PendingStateBase& state, Deadline) {
                auto& self = *static_cast<Work*>(object);
                EXPECT_FALSE(state.is_ready());
                ++self.calls;
                self.promise.set_value(9);
              },
          .object = &work,
          .release =
              [](void* object) noexcept { static_cast<Work*>(object)->was_released = true; }},
  });
  {
    Pending<int> pending = work.promise.pending();
    EXPECT_EQ(pending.get(), 9);
    EXPECT_EQ(pending.get(), 9);
    EXPECT_EQ(work.calls, 1);
    EXPECT_FALSE(work.was_released);
  }
  EXPECT_TRUE(work.was_released);
}

TEST(Pending, ContinuationsRunOnTheRunnersThreadInEachOrderOfSteps) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    ManualExecutor executor(seed);
    executor.run([&] {
      ContinuationRunner runner(executor);
      Promise<int> promise;
      const auto producer = executor.spawn({.name = "producer"}, [&] { promise.set_value(20); });
      detail::ThreadId id{};
      Pending<std::string> text =
          promise.pending()
              .then(runner,
                    [&](int value) {
                      id = detail::current_context().id();
                      return std::make_unique<int>(value + 1);
                    })
              .then(runner, [](std::unique_ptr<int> value) { return std::to_string(2 * *value); });
      EXPECT_EQ(text.get(), "42") << "seed " << seed;
      EXPECT_NE(id, detail::current_context().id());
    });
  }
}

TEST(Pending, AnErrorSkipsContinuationsAndTravelsOn) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  Promise<int> promise;
  bool has_run = false;
  Pending<void> last =
      promise.pending().then(runner, [&](int) { has_run = true; }).then(runner, [&] {
        has_run = true;
      });
  promise.set_error(failed("bad"));
  EXPECT_EQ(last.wait().error().text, "bad");
  EXPECT_FALSE(has_run);
}

TEST(Pending, WhatAContinuationThrowsBecomesItsError) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  Promise<int> promise;
  auto first = promise.pending().then(runner, [](int) -> int { throw std::runtime_error("oops"); });
  promise.set_value(1);
  EXPECT_EQ(first.wait().error().code, ErrorCode::worker_failed);
  EXPECT_EQ(first.wait().error().text, "a continuation threw: oops");

  Promise<int> other;
  auto second = other.pending().then(runner, [](int) { throw_error(*failed("ours")); });
  other.set_value(1);
  EXPECT_EQ(second.wait().error().text, "ours");
}

TEST(Pending, AContinuationOfAnEndedRunnerIsCancelled) {
  ThreadExecutor executor;
  Promise<int> promise;
  Pending<int> result;
  {
    ContinuationRunner runner(executor);
    result = promise.pending().then(runner, [](int value) { return value; });
  }
  promise.set_value(1);
  EXPECT_EQ(code_of(std::move(result)), ErrorCode::cancelled);
}

TEST(Pending, AChainOfContinuationsTakesTheSameForEachLink) {
  ManualExecutor executor;
  executor.run([&] {
    constexpr int kLinks = 100'000;
    ContinuationRunner runner(executor);
    Promise<int> promise({.subject = "the loss"});
    Pending<int> last = promise.pending();
    for (int i = 0; i < kLinks; ++i) {
      last = std::move(last).then(runner, [](int value) { return value + 1; });
    }
    EXPECT_EQ(last.wait({.deadline = Deadline::in(std::chrono::nanoseconds::zero())}).error().text,
              "the deadline passed while waiting for the loss, then (100000 times)");
    promise.set_value(0);
    EXPECT_EQ(last.get(), kLinks);
  });
}

// Without a runner to take them, destructors of links would nest, one inside the other.
TEST(Pending, AnAbandonedChainOfContinuationsEndsOneLinkAfterTheOther) {
  ManualExecutor executor;
  executor.run([&] {
    std::optional<ContinuationRunner> runner;
    runner.emplace(executor);
    Promise<int> promise;
    Pending<int> last = promise.pending();
    for (int i = 0; i < 200'000; ++i) {
      last = std::move(last).then(*runner, [](int value) { return value + 1; });
    }
    runner.reset();
    promise = Promise<int>();
    EXPECT_EQ(last.wait({.deadline = Deadline::in(std::chrono::nanoseconds::zero())}).error().code,
              ErrorCode::cancelled);
  });
}
