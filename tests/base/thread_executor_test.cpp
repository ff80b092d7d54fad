#include <hearth/runtime/base/thread_executor.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <hearth/runtime/base/error.hpp>

using namespace hearth;

TEST(ThreadExecutor, RunsTheBodyOnAThreadOfItsNameAndTime) {
  ThreadExecutor executor;
  std::array<char, 32> name{};
  bool is_manual = true;
  executor
      .spawn({.name = "cpu:0 actor and more"},
             [&] {
               pthread_getname_np(pthread_self(), name.data(), name.size());
               is_manual = detail::current_context().is_manual();
             })
      ->join();
  EXPECT_STREQ(name.data(), "cpu:0 actor and");
  EXPECT_FALSE(is_manual);
  EXPECT_FALSE(executor.is_manual());
  const detail::TimePoint executor_time = executor.clock().now();
  EXPECT_LE(executor_time, detail::SteadyClock().now());
}

TEST(ThreadExecutor, DestroyingTheHandleJoins) {
  ThreadExecutor executor;
  bool has_run = false;
  {
    const auto thread = executor.spawn({.name = "worker"}, [&] { has_run = true; });
  }
  EXPECT_TRUE(has_run);
}

TEST(ThreadExecutor, WhatTheBodyOwnsIsGoneAfterJoin) {
  ThreadExecutor executor;
  auto owned = std::make_shared<int>(1);
  const auto thread = executor.spawn({.name = "worker"}, [owned] { EXPECT_EQ(*owned, 1); });
  thread->join();
  thread->join();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST(ThreadExecutor, AThreadThatCanUseNoneOfItsCoresStillRuns) {
  ThreadExecutor executor;
  bool has_run = false;
  executor.spawn({.name = "worker", .cores = {1 << 20}}, [&] { has_run = true; })->join();
  EXPECT_TRUE(has_run);
}

// For a separate process: limits its address space to hardly more than it uses, so a new thread has
// no room for a stack.
[[noreturn]] static void spawn_without_room() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  const rlim_t limit = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (4U << 20U);
  const rlimit room{.rlim_cur = limit, .rlim_max = limit};
  setrlimit(RLIMIT_AS, &room);
  ThreadExecutor executor;
  try {
    static_cast<void>(executor.spawn({.name = "one too many"}, [] {}));
  } catch (const OutOfMemory& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(0);
  }
  std::_Exit(1);
}

TEST(ThreadExecutorDeathTest, AThreadThatCannotBeHadIsTheLibrarysOwnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space";
#endif
  EXPECT_EXIT(spawn_without_room(),
              ::testing::ExitedWithCode(0),
              "the thread 'one too many' cannot be started: .*no room");
}
