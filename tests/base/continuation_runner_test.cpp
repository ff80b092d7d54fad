#include <hearth/runtime/base/continuation_runner.hpp>

#include <hearth/runtime/base/manual_executor.hpp>

#include <vector>

#include <gtest/gtest.h>

using namespace hearth;

TEST(ContinuationRunner, RunsTasksInOrderOnItsOwnThread) {
  ManualExecutor executor;
  executor.run([&] {
    std::vector<int> order;
    ThreadId id{};
    {
      ContinuationRunner runner(executor);
      runner.queue()->start();
      for (int i = 0; i < 3; ++i) {
        runner.queue()->post([&, i] {
          order.push_back(i);
          id = current_context().id();
        });
      }
    }
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
    EXPECT_NE(id, current_context().id());
  });
}

TEST(ContinuationRunner, StartsNoThreadUntilItIsNeeded) {
  ManualExecutor executor;
  executor.run([&] {
    const ContinuationRunner runner(executor);
    schedule_point();
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
    schedule_point();
    EXPECT_FALSE(has_run);
    EXPECT_EQ(owned.use_count(), 1);
  });
}
