// Time in which no thread of the process could run, on a clock that the test moves and in virtual
// time. A test on the real clock is in tests/examples.
#include <hearth/runtime/base/standstill.hpp>

#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

detail::TimePoint at(std::chrono::nanoseconds time) {
  return detail::TimePoint(100h + time);
}

TEST(Standstill, NothingCountsWhileSleepersLookAtTheClockInTime) {
  Standstill standstill;
  for (std::chrono::nanoseconds now = 0ns; now < 60s; now += Standstill::kBeat) {
    standstill.begin_sleep(at(now));
    standstill.end_sleep(at(now + Standstill::kBeat + Standstill::kTolerance));
  }
  EXPECT_EQ(standstill.sum(at(60s)), 0s);
}

TEST(Standstill, WhatLiesBetweenTheNextLookAndTheLookThatCameCounts) {
  Standstill standstill;
  standstill.begin_sleep(at(1s));
  EXPECT_EQ(standstill.sum(at(11s)), 10s - Standstill::kBeat);
}

TEST(Standstill, ItCountsOnceThoughEachThreadFindsIt) {
  Standstill standstill;
  standstill.begin_sleep(at(1s));
  standstill.begin_sleep(at(1s));
  standstill.end_sleep(at(11s));
  standstill.end_sleep(at(11s + 30ms));
  EXPECT_EQ(standstill.sum(at(11s + 40ms)), 10s - Standstill::kBeat);
  standstill.begin_sleep(at(12s));
  EXPECT_EQ(standstill.sum(at(17s)), 15s - 2 * Standstill::kBeat) << "the next one comes on top";
}

TEST(Standstill, ASleeperThatLeavesFindsItFirst) {
  Standstill standstill;
  standstill.begin_sleep(at(1s));
  standstill.end_sleep(at(8s));
  EXPECT_EQ(standstill.sum(at(8s)), 7s - Standstill::kBeat);
}

TEST(Standstill, ASleeperThatComesLateWithAnOldTimeHidesNoLaterOne) {
  Standstill standstill;
  standstill.begin_sleep(at(9s));
  standstill.begin_sleep(at(1s));
  EXPECT_EQ(standstill.sum(at(9s + Standstill::kBeat)), 0s) << "one looked at the clock at 9 s";
}

TEST(Standstill, WithoutASleeperAProgramThatComputesStandsStillForNobody) {
  Standstill standstill;
  standstill.begin_sleep(at(1s));
  standstill.end_sleep(at(1s));
  EXPECT_EQ(standstill.sum(at(1h)), 0s);
}

TEST(Standstill, NoWaitInTheLibraryCountsIt) {
  ManualExecutor executor;
  executor.run([&] {
    const auto stopper = executor.spawn({.name = "stopper"}, [&] {
      detail::current_context().parker().park(Deadline::in(1s));
      executor.stand_still(10s);
    });
    const detail::TimePoint start = executor.clock().now();
    const Deadline end = Deadline::in(5s);
    Promise<int> promise;
    const Pending<int> pending = promise.pending();
    EXPECT_FALSE(detail::PendingAccess::is_ready_by(pending, Deadline::in(2s)));
    EXPECT_EQ(executor.clock().now() - start, 12s);
    EXPECT_EQ(end.left(), 3s);
    EXPECT_EQ(end.time(), start + 15s);
    executor.stand_still(10s);
    EXPECT_FALSE(end.has_passed());
    EXPECT_EQ(Deadline::at(executor.clock().now() + 3s), end);
    detail::Mailbox<int> mailbox;
    EXPECT_FALSE(mailbox.pop(end).has_value());
    EXPECT_TRUE(end.has_passed());
    EXPECT_EQ(executor.clock().now() - start, 25s);
    stopper->join();
  });
}

// On the real clock: a sleeper reads the clock in between, and sleeps on.
TEST(Standstill, ASleepOfSeveralLooksEndsAtItsDeadline) {
  const Deadline end = Deadline::in(2 * Standstill::kBeat + 50ms);
  EXPECT_EQ(detail::current_context().parker().park(end), detail::Wake::deadline);
  EXPECT_TRUE(end.has_passed());
}

}  // namespace
}  // namespace hearth
