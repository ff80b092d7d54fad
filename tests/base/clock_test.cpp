#include <hearth/runtime/base/clock.hpp>

#include <hearth/runtime/base/thread_context.hpp>

#include <gtest/gtest.h>

using namespace hearth;

TEST(SteadyClock, NeverGoesBack) {
  detail::SteadyClock clock;
  detail::TimePoint last = clock.now();
  for (int i = 0; i < 1000; ++i) {
    const detail::TimePoint now = clock.now();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(Deadline, NeverIsTheLatestAndNeverPasses) {
  EXPECT_GT(Deadline::never(), Deadline::in(std::chrono::hours(24 * 365)));
  EXPECT_FALSE(Deadline::never().has_passed());
  EXPECT_TRUE(Deadline::in(std::chrono::nanoseconds::max()).is_never());
  EXPECT_TRUE(
      Deadline::in(std::chrono::nanoseconds::max() - std::chrono::nanoseconds(1)).is_never())
      << "too long to add";
}

TEST(Deadline, HasPassedOnceTheClockReachesIt) {
  EXPECT_TRUE(Deadline::at(detail::current_context().clock().now()).has_passed());
  EXPECT_FALSE(Deadline::in(std::chrono::hours(1)).has_passed());
}

TEST(Deadline, OfALimitPlusALittleIsNeverWhereTheLimitIs) {
  EXPECT_TRUE(
      Deadline::in(detail::saturated_sum(std::chrono::nanoseconds::max(), std::chrono::seconds(5)))
          .is_never());
  EXPECT_EQ(detail::saturated_sum(std::chrono::seconds(1), std::chrono::seconds(5)),
            std::chrono::seconds(6));
  EXPECT_EQ(Deadline::never().left(), std::chrono::nanoseconds::max());
  EXPECT_EQ(Deadline::in(-std::chrono::seconds(1)).left(), std::chrono::nanoseconds::zero());
}
