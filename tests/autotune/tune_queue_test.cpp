#include <hearth/autotune/tune_queue.hpp>

#include <chrono>

#include <gtest/gtest.h>

#include <hearth/autotune/tune_budget.hpp>

namespace hearth::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(1000)};

TuneKey key_of(std::int64_t size) {
  return {.sizes = {size}};
}

TEST(TuneQueue, TheHeaviestKeyComesFirst) {
  TuneQueue queue;
  EXPECT_FALSE(queue.next(kStart).has_value());
  EXPECT_EQ(queue.ready_at(), TimePoint::max());
  queue.want(key_of(1), RunTime(100));
  for (int i = 0; i < 5; ++i) {
    queue.want(key_of(2), RunTime(30));
  }
  EXPECT_EQ(queue.next(kStart), key_of(2)) << "5 calls of 30 are more than one of 100";
  const std::vector<WantedKey> list = queue.list();
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].key, key_of(2));
  EXPECT_EQ(list[0].calls, 5U);
  EXPECT_EQ(list[0].weight, RunTime(150));
  queue.remove(key_of(2));
  EXPECT_EQ(queue.next(kStart), key_of(1));
}

TEST(TuneQueue, EqualWeightsComeInOneOrder) {
  TuneQueue forward;
  TuneQueue backward;
  for (int i = 0; i < 20; ++i) {
    forward.want(key_of(i), RunTime(1));
    backward.want(key_of(19 - i), RunTime(1));
  }
  EXPECT_EQ(forward.next(kStart), backward.next(kStart));
  EXPECT_EQ(forward.list(), backward.list());
}

TEST(TuneQueue, APostponedKeyWaits) {
  TuneQueue queue;
  queue.want(key_of(1), RunTime(100));
  queue.want(key_of(2), RunTime(50));
  queue.postpone(key_of(1), kStart + seconds(10));
  EXPECT_EQ(queue.next(kStart), key_of(2));
  queue.remove(key_of(2));
  EXPECT_FALSE(queue.next(kStart).has_value());
  EXPECT_EQ(queue.ready_at(), kStart + seconds(10));
  EXPECT_EQ(queue.next(kStart + seconds(10)), key_of(1));
}

// Each new shape of a program with ever changing shapes evicts another one; a frequent key stays.
TEST(TuneQueue, AFrequentKeyOutlivesAStreamOfRareOnes) {
  TuneQueue queue(8);
  for (int i = 0; i < 1000; ++i) {
    queue.want(key_of(1'000'000 + i), RunTime(1));
    if (i >= 100 && i % 4 == 0) {  // a share of 1/5, above 1/8
      queue.want(key_of(7), RunTime(1));
    }
  }
  EXPECT_EQ(queue.size(), 8U);
  EXPECT_EQ(queue.next(kStart), key_of(7));
}

TEST(TuneBudget, AllowsItsShareOfTheTime) {
  TuneBudget budget({}, kStart);
  nanoseconds spent{};
  TimePoint now = kStart;
  for (int i = 0; i < 100'000; ++i) {
    now += milliseconds(1);
    if (budget.may_begin(now)) {
      budget.spend(milliseconds(2));
      spent += milliseconds(2);
    }
  }
  EXPECT_GE(spent, milliseconds(2000)) << "2 % of 100 s";
  EXPECT_LE(spent, milliseconds(2000 + 20 + 2));
}

TEST(TuneBudget, SavesOneBurstOnly) {
  TuneBudget budget({}, kStart);
  budget.spend(milliseconds(20));
  EXPECT_FALSE(budget.may_begin(kStart));
  EXPECT_TRUE(budget.may_begin(kStart + std::chrono::hours(10)));
  budget.spend(milliseconds(20));
  EXPECT_FALSE(budget.may_begin(kStart + std::chrono::hours(10)));
}

TEST(TuneBudget, StatesWhenTheNextTrialMayBegin) {
  TuneBudget budget({}, kStart);
  EXPECT_EQ(budget.ready_at(kStart), kStart);
  budget.spend(milliseconds(30));
  const TimePoint ready = budget.ready_at(kStart);
  EXPECT_NEAR(static_cast<double>((ready - kStart).count()), 500e6, 1e3);  // 10 ms at 2 %
  EXPECT_FALSE(budget.may_begin(ready - milliseconds(1)));
  EXPECT_TRUE(budget.may_begin(ready));
}

TEST(TuneBudget, EarnsInSmallSteps) {
  TuneBudget budget({}, kStart);
  budget.spend(milliseconds(20));
  TimePoint now = kStart;
  for (int i = 0; i < 100'000 && !budget.may_begin(now); ++i) {
    now += nanoseconds(20);  // less than a nanosecond of the share
  }
  EXPECT_LE(now - kStart, nanoseconds(200));
}

}  // namespace
}  // namespace hearth::detail
