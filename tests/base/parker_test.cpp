#include <hearth/runtime/base/parker.hpp>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <gtest/gtest.h>

using namespace hearth;

TEST(Parker, ATokenGivenBeforeParkEndsItAtOnce) {
  detail::Parker& parker = detail::current_context().parker();
  parker.unpark();
  EXPECT_EQ(parker.park(Deadline::never()), detail::Wake::unparked);
}

TEST(Parker, TwoUnparksBeforeAParkCountAsOne) {
  detail::Parker& parker = detail::current_context().parker();
  parker.unpark();
  parker.unpark();
  EXPECT_EQ(parker.park(Deadline::never()), detail::Wake::unparked);
  EXPECT_EQ(parker.park(Deadline::in(std::chrono::nanoseconds::zero())), detail::Wake::deadline);
}

TEST(Parker, WithoutATokenTheDeadlineEndsIt) {
  const Deadline deadline = Deadline::in(std::chrono::milliseconds(2));
  EXPECT_EQ(detail::current_context().parker().park(deadline), detail::Wake::deadline);
  EXPECT_TRUE(deadline.has_passed());
}

TEST(Parker, NoWakeIsLostInManyRoundsBetweenTwoThreads) {
  constexpr int kRounds = 20'000;
  std::atomic<int> turn{0};
  const IntrusivePtr<detail::Parker> mine(&detail::current_context().parker());
  ThreadExecutor executor;
  IntrusivePtr<detail::Parker> theirs;
  std::atomic<bool> has_parker{false};
  const auto thread = executor.spawn({.name = "pong"}, [&] {
    theirs = IntrusivePtr<detail::Parker>(&detail::current_context().parker());
    has_parker.store(true, std::memory_order_release);
    mine->unpark();
    for (int round = 0; round < kRounds; ++round) {
      while (turn.load(std::memory_order_acquire) != 2 * round + 1) {
        detail::current_context().parker().park(Deadline::never());
      }
      turn.store(2 * round + 2, std::memory_order_release);
      mine->unpark();
    }
  });
  while (!has_parker.load(std::memory_order_acquire)) {
    mine->park(Deadline::never());
  }
  for (int round = 0; round < kRounds; ++round) {
    turn.store(2 * round + 1, std::memory_order_release);
    theirs->unpark();
    while (turn.load(std::memory_order_acquire) != 2 * round + 2) {
      ASSERT_EQ(mine->park(Deadline::in(kDefaultWait)), detail::Wake::unparked);
    }
  }
  thread->join();
}

TEST(Parker, OutlivesItsThreadWhileAWakerHoldsIt) {
  ThreadExecutor executor;
  IntrusivePtr<detail::Parker> theirs;
  executor
      .spawn({.name = "short"},
             [&] { theirs = IntrusivePtr<detail::Parker>(&detail::current_context().parker()); })
      ->join();
  theirs->unpark();
  EXPECT_EQ(theirs->use_count(), 1U);
}

TEST(Parker, UnderTheManualExecutorDeadlinesPassInVirtualTime) {
  ManualExecutor executor;
  executor.run([&] {
    const detail::TimePoint start = executor.clock().now();
    EXPECT_EQ(detail::current_context().parker().park(Deadline::in(std::chrono::hours(1000))),
              detail::Wake::deadline);
    EXPECT_EQ(executor.clock().now() - start, std::chrono::hours(1000));
  });
}

TEST(Parker, UnderTheManualExecutorAWakeComesBeforeALaterDeadline) {
  ManualExecutor executor;
  executor.run([&] {
    const IntrusivePtr<detail::Parker> main(&detail::current_context().parker());
    const auto waker = executor.spawn({.name = "waker"}, [&] {
      detail::current_context().parker().park(Deadline::in(std::chrono::seconds(1)));
      main->unpark();
    });
    EXPECT_EQ(main->park(Deadline::in(std::chrono::seconds(2))), detail::Wake::unparked);
    EXPECT_EQ(executor.clock().now().time_since_epoch(), std::chrono::seconds(1));
  });
}
