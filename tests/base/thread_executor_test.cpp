#include <hearth/runtime/base/thread_executor.hpp>

#include <array>

#include <pthread.h>

#include <gtest/gtest.h>

using namespace hearth;

TEST(ThreadExecutor, RunsTheBodyOnAThreadOfItsNameAndTime) {
  ThreadExecutor executor;
  std::array<char, 32> name{};
  bool is_manual = true;
  executor
      .spawn({.name = "cpu:0 actor and more"},
             [&] {
               pthread_getname_np(pthread_self(), name.data(), name.size());
               is_manual = current_context().is_manual();
             })
      ->join();
  EXPECT_STREQ(name.data(), "cpu:0 actor and");
  EXPECT_FALSE(is_manual);
  EXPECT_FALSE(executor.is_manual());
  const TimePoint executor_time = executor.clock().now();
  EXPECT_LE(executor_time, SteadyClock().now());
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
