#include <hearth/runtime/base/clock.hpp>

#include <hearth/runtime/base/thread_context.hpp>

#include <gtest/gtest.h>

using namespace hearth;

TEST(SteadyClock, NeverGoesBack) {
  SteadyClock clock;
  TimePoint last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = clock.now();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(Deadline, NeverIsTheLatestAndNeverPasses) {
  EXPECT_GT(Deadline::never(), Deadline::in(std::chrono::hours(24 * 365)));
  EXPECT_FALSE(Deadline::never().has_passed());
  EXPECT_TRUE(Deadline::in(Duration::max()).is_never());
}

TEST(Deadline, HasPassedOnceTheClockReachesIt) {
  EXPECT_TRUE(Deadline::at(current_context().clock().now()).has_passed());
  EXPECT_FALSE(Deadline::in(std::chrono::hours(1)).has_passed());
}
