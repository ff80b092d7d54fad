#include <hearth/runtime/base/continuation_runner.hpp>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace hearth;

TEST(ContinuationRunner, RunsTasksInOrderOnItsOwnThread) {
  ManualExecutor executor;
  executor.run([&] {
    std::vector<int> order;
    detail::ThreadId id{};
    {
      ContinuationRunner runner(executor);
      runner.queue()->start();
      for (int i = 0; i < 3; ++i) {
        runner.queue()->post([&, i] {
          order.push_back(i);
          id = detail::current_context().id();
        });
      }
    }
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
    EXPECT_NE(id, detail::current_context().id());
  });
}

// The holder of a device's token fulfils promises, so it must neither yield nor read a clock there.
TEST(ContinuationRunner, APostIsOneStepOfTheThreadThatPosts) {
  ManualExecutor executor;
  executor.run([&] {
    ContinuationRunner runner(executor);
    runner.queue()->start();
    detail::schedule_point();
    const std::uint64_t before = executor.step_count();
    runner.queue()->post([] {});
    EXPECT_EQ(executor.step_count(), before);
  });
}

TEST(ContinuationRunner, StartsNoThreadUntilItIsNeeded) {
  ManualExecutor executor;
  executor.run([&] {
    const ContinuationRunner runner(executor);
    detail::schedule_point();
  });
  EXPECT_EQ(executor.step_count(), 2U);
}

TEST(ContinuationRunner, DropsTasksThatComeAfterItsEnd) {
  ManualExecutor executor;
  executor.run([&] {
    IntrusivePtr<ContinuationRunner::Queue> queue;
    {
      const ContinuationRunner runner(executor);
      queue = runner.queue();
      queue->start();
    }
    queue->start();
    bool has_run = false;
    auto owned = std::make_shared<int>(1);
    queue->post([&has_run, owned] { has_run = true; });
    detail::schedule_point();
    EXPECT_FALSE(has_run);
    EXPECT_EQ(owned.use_count(), 1);
  });
}

TEST(ContinuationRunner, OneThatHangsIsLeftBehindAtTheLimitAndThoseBehindItAreCancelled) {
  ManualExecutor executor;
  executor.run([&] {
    std::vector<std::string> lines;
    detail::Log log(
        {.output = [&](detail::LogLevel, std::string_view line) { lines.emplace_back(line); }});
    Promise<void> release;
    const auto released = std::make_shared<const Pending<void>>(release.pending());
    std::optional<ContinuationRunner> runner;
    runner.emplace(
        executor,
        ContinuationRunnerOptions{.shutdown_limit = std::chrono::seconds(3), .log = &log});
    Promise<int> first;
    const Pending<int> hung = first.pending().then(*runner, [released](int value) {
      static_cast<void>(released->wait({.deadline = Deadline::never()}));
      return value + 1;
    });
    Promise<int> second;
    const Pending<int> behind = second.pending().then(*runner, [](int value) { return value; });
    first.set_value(1);
    second.set_value(1);
    const detail::TimePoint begin = executor.clock().now();
    runner.reset();
    EXPECT_EQ(executor.clock().now() - begin, std::chrono::seconds(3));
    EXPECT_THAT(lines,
                ::testing::ElementsAre("the thread of continuations does not end: runs one; 1 more "
                                       "wait; its thread is abandoned"));
    EXPECT_EQ(behind.wait().error().code, ErrorCode::cancelled);
    EXPECT_FALSE(hung.is_ready());
    release.set_value();
    EXPECT_TRUE(hung.wait().has_value());
  });
}
