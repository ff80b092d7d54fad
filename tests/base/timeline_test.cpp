#include <hearth/runtime/base/timeline.hpp>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <vector>

#include <gtest/gtest.h>

using namespace hearth;

namespace {

ErrorRef lost(const char* text) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::device_lost, .text = text});
}

/// Waiters for each of the values 1..8 while an owner advances by `stride`; how many were woken in
/// time.
int count_reached(Executor& executor, std::uint64_t stride) {
  const auto timeline = make_intrusive<Timeline>();
  std::atomic<int> reached_count{0};
  std::vector<std::unique_ptr<Joinable>> waiters;
  for (std::uint64_t value = 1; value <= 8; ++value) {
    waiters.push_back(executor.spawn({.name = "waiter"}, [&, value] {
      const Status status = timeline->wait(value, Deadline::in(kDefaultWait));
      if (status.has_value() && timeline->value() >= value) {
        reached_count.fetch_add(1, std::memory_order_relaxed);
      }
    }));
  }
  for (std::uint64_t value = stride; value < 8 + stride; value += stride) {
    timeline->advance(value);
    schedule_point();
  }
  waiters.clear();
  return reached_count.load(std::memory_order_acquire);
}

}  // namespace

TEST(Timeline, AReachedValueNeedsNoWaiting) {
  Timeline timeline;
  timeline.advance(3);
  EXPECT_EQ(timeline.value(), 3U);
  EXPECT_TRUE(timeline.wait(3, Deadline::in(Duration::zero())).has_value());
  EXPECT_FALSE(timeline.has_reached(4));
}

TEST(Timeline, AWaitPastItsDeadlineNamesBothValues) {
  Timeline timeline;
  timeline.advance(3);
  const Status status = timeline.wait(4, Deadline::in(Duration::zero()));
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
  EXPECT_EQ(status.error().text,
            "the deadline passed while waiting for timeline value 4; it stands at 3");
}

TEST(Timeline, WakesEveryWaiterWhoseValueIsReached) {
  ThreadExecutor threads;
  EXPECT_EQ(count_reached(threads, 1), 8);
  EXPECT_EQ(count_reached(threads, 3), 8);
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    ManualExecutor executor(seed);
    executor.run([&] { EXPECT_EQ(count_reached(executor, 1 + seed % 4), 8) << "seed " << seed; });
    EXPECT_EQ(executor.clock().now().time_since_epoch(), Duration::zero()) << "seed " << seed;
  }
}

TEST(Timeline, AFailureReachesWaitersOfLaterValuesOnly) {
  ManualExecutor executor;
  executor.run([&] {
    Timeline timeline;
    Status waited;
    const auto waiter = executor.spawn(
        {.name = "waiter"}, [&] { waited = timeline.wait(5, Deadline::in(kDefaultWait)); });
    current_context().parker().park(Deadline::in(std::chrono::seconds(1)));
    timeline.advance(4);
    timeline.fail(lost("first"));
    timeline.fail(lost("second"));
    waiter->join();
    ASSERT_FALSE(waited.has_value());
    EXPECT_EQ(waited.error().text, "first");
    EXPECT_TRUE(timeline.wait(4, Deadline::never()).has_value());
    EXPECT_EQ(timeline.status().error().text, "first");
  });
}

TEST(Timeline, NoWakeIsLostInManyRoundsBetweenTwoThreads) {
  constexpr std::uint64_t kRounds = 5'000;
  Timeline ping;
  Timeline pong;
  ThreadExecutor executor;
  const auto thread = executor.spawn({.name = "pong"}, [&] {
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      ASSERT_TRUE(ping.wait(round, Deadline::in(kDefaultWait)).has_value());
      pong.advance(round);
    }
  });
  for (std::uint64_t round = 1; round <= kRounds; ++round) {
    ping.advance(round);
    ASSERT_TRUE(pong.wait(round, Deadline::in(kDefaultWait)).has_value());
  }
}
