#include <hearth/runtime/base/fiber_loop.hpp>

#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <atomic>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace hearth {
namespace {

using detail::FiberLoop;
using detail::FiberThread;

/// The end of every wait of these tests.
Deadline patience() {
  return Deadline::in(std::chrono::seconds(20));
}

TEST(FiberLoop, AFiberAwaitsAnAsynchronousOperation) {
  std::string order;
  ThreadExecutor executor;
  FiberLoop loop(executor, {.name = "test"});
  loop.start([&](FiberThread& fiber) {
    order += 'a';
    const auto [number, text] = fiber.await<int, std::string>([&](auto done) {
      boost::asio::post(loop.io(), [done]() mutable { done(7, "seven"); });
      order += 'b';
    });
    order += std::to_string(number) + text;
  });
  ASSERT_TRUE(loop.end(patience()));
  EXPECT_EQ(order, "ab7seven");
}

TEST(FiberLoop, AWaitingFiberHoldsUpNoOther) {
  Promise<int> first;
  Promise<int> second;
  Pending<int> of_first = first.pending();
  Pending<int> of_second = second.pending();
  int got = 0;
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  FiberLoop loop(executor, {.name = "test"});
  loop.start(
      [&](FiberThread& fiber) { got = fiber.await_result(std::move(of_first), runner, {}).get(); });
  loop.start([&](FiberThread& fiber) {
    first.set_value(fiber.await_result(std::move(of_second), runner, {}).get() + 1);
  });
  loop.start([&](FiberThread&) { second.set_value(41); });
  ASSERT_TRUE(loop.end(patience()));
  EXPECT_EQ(got, 42);
}

TEST(FiberLoop, AnotherThreadWakesAFiber) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  for (int round = 0; round < 100; ++round) {
    Promise<int> promise;
    Pending<int> pending = promise.pending();
    std::atomic<int> got = 0;
    FiberLoop loop(executor, {.name = "test"});
    loop.start([&](FiberThread& fiber) {
      got = fiber.await_result(std::move(pending), runner, {}).get();
    });
    {
      const std::jthread other([&] { promise.set_value(round); });
    }
    ASSERT_TRUE(loop.end(patience()));
    ASSERT_EQ(got, round);
  }
}

TEST(FiberLoop, AnErrorWakesAFiber) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  FiberLoop loop(executor, {.name = "test"});
  ErrorCode code{};
  loop.start([&](FiberThread& fiber) {
    Pending<int> pending;
    {
      const Promise<int> abandoned;
      pending = abandoned.pending();
    }
    code = fiber.await_result(std::move(pending), runner, {}).wait().error().code;
  });
  ASSERT_TRUE(loop.end(patience()));
  EXPECT_EQ(code, ErrorCode::cancelled);
}

// Results and stops that meet: each wait ends once, and a late result is dropped.
TEST(FiberLoop, AStopEndsTheWaitOfAFiber) {
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  for (int round = 0; round < 100; ++round) {
    auto promise = std::make_unique<Promise<int>>();
    Pending<int> pending = promise->pending();
    std::stop_source stop;
    std::atomic<int> ends = 0;
    FiberLoop loop(executor, {.name = "test"});
    loop.start([&](FiberThread& fiber) {
      const Pending<int> got = fiber.await_result(std::move(pending), runner, stop.get_token());
      EXPECT_TRUE(round % 2 == 1 || !got.is_valid());
      ++ends;
      Pending<int> other = fiber.await_result(
          [] {
            Promise<int> ready;
            Pending<int> result = ready.pending();
            ready.set_value(5);
            return result;
          }(),
          runner,
          {});
      EXPECT_EQ(other.get(), 5);
      ++ends;
    });
    if (round % 2 == 1) {
      const std::jthread fulfils([&] { promise->set_value(1); });
      stop.request_stop();
    } else {
      stop.request_stop();
    }
    ASSERT_TRUE(loop.end(patience()));
    EXPECT_EQ(ends, 2);
  }
}

TEST(FiberLoop, RefusesAWaitThatWouldHoldUpTheOthers) {
  const Promise<int> promise({.subject = "readback of f32[3] on cpu:0"});
  Pending<int> pending = promise.pending();
  ThreadExecutor executor;
  FiberLoop loop(executor, {.name = "test"});
  loop.start([&](FiberThread&) {
    try {
      static_cast<void>(pending.get());
      ADD_FAILURE() << "the wait was not refused";
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.code(), ErrorCode::stream_misuse);
      EXPECT_NE(std::string(error.what())
                    .find("readback of f32[3] on cpu:0 is waited for on a thread of fibers"),
                std::string::npos);
    }
  });
  EXPECT_TRUE(loop.end(patience()));
}

TEST(FiberLoop, RefusesToAwaitInsideOfAScopeOfTheThread) {
  Promise<int> refused;
  Promise<int> promise;
  Pending<int> pending = promise.pending();
  ThreadExecutor executor;
  ContinuationRunner runner(executor);
  int got = 0;
  FiberLoop loop(executor, {.name = "test"});
  loop.start([&](FiberThread& fiber) {
    detail::enter_thread_scope("StreamScope");
    try {
      static_cast<void>(fiber.await_result(refused.pending(), runner, {}));
      ADD_FAILURE() << "the wait was not refused";
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.code(), ErrorCode::stream_misuse);
      EXPECT_NE(std::string(error.what()).find("a fiber awaits inside of a StreamScope"),
                std::string::npos);
    }
    EXPECT_THROW(static_cast<void>(fiber.await<int>([](auto) { FAIL() << "it began"; })),
                 ArgumentError);
    detail::leave_thread_scope();
    got = fiber.await_result(std::move(pending), runner, {}).get();
  });
  loop.start([&](FiberThread&) { promise.set_value(3); });
  EXPECT_TRUE(loop.end(patience()));
  EXPECT_EQ(got, 3) << "outside of the scope it may";
}

}  // namespace
}  // namespace hearth
