#include <hearth/runtime/base/sync.hpp>

#include <hearth/runtime/base/thread_executor.hpp>

#include <gtest/gtest.h>

using namespace hearth;

TEST(Mutex, OnlyOneThreadIsInsideAtATime) {
  struct {
    detail::Mutex mutex;
    int count HEARTH_GUARDED_BY(mutex) = 0;
  } shared;
  ThreadExecutor executor;
  std::vector<std::unique_ptr<detail::Joinable>> threads;
  for (int i = 0; i < 3; ++i) {
    threads.push_back(executor.spawn({.name = "counter"}, [&] {
      for (int k = 0; k < 10'000; ++k) {
        const detail::MutexLock lock(shared.mutex);
        ++shared.count;
      }
    }));
  }
  threads.clear();
  const detail::MutexLock lock(shared.mutex);
  EXPECT_EQ(shared.count, 30'000);
}

TEST(Mutex, TryLockFailsWhileAnotherThreadIsInside) {
  detail::Mutex mutex;
  const auto can_lock = [&mutex] {
    const bool is_locked = mutex.try_lock();
    if (is_locked) {
      mutex.unlock();
    }
    return is_locked;
  };
  ThreadExecutor executor;
  bool could_lock = true;
  {
    const detail::MutexLock lock(mutex);
    executor.spawn({.name = "other"}, [&] { could_lock = can_lock(); })->join();
  }
  EXPECT_FALSE(could_lock);
  EXPECT_TRUE(can_lock());
}

#ifdef HEARTH_ASSERTS
TEST(MutexDeathTest, HoldingOneAcrossAParkIsCaught) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        detail::Mutex mutex;
        const detail::MutexLock lock(mutex);
        detail::current_context().parker().park(Deadline::in(std::chrono::nanoseconds::zero()));
      },
      "a Mutex is held across a park");
}
#endif
