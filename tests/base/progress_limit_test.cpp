#include <hearth/runtime/base/progress_limit.hpp>

#include <hearth/runtime/base/continuation_runner.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/pending.hpp>

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

struct Source {
  std::uint64_t progress = 0;
  int holders = 1;  ///< The first state.

  [[nodiscard]] detail::PendingHelper helper(std::chrono::nanoseconds limit) {
    return {
        .object = this,
        .retain = [](void* object) noexcept { ++static_cast<Source*>(object)->holders; },
        .release = [](void* object) noexcept { --static_cast<Source*>(object)->holders; },
        .progress = [](void* object) noexcept { return static_cast<Source*>(object)->progress; },
        .limit = limit};
  }
};

class ProgressLimitTest : public ::testing::Test {
 protected:
  template <class Body>
  void run(Body body) {
    executor_.run([&] { body(); });
  }
  void pass(std::chrono::nanoseconds time) {
    detail::current_context().parker().park(Deadline::in(time));
  }
  [[nodiscard]] detail::TimePoint now() { return executor_.clock().now(); }

  ManualExecutor executor_;
};

TEST_F(ProgressLimitTest, WithoutProgressItIsOverAtTheLimit) {
  run([&] {
    ProgressLimit limit(8s, 1);
    EXPECT_EQ(limit.next_check().left(), 1s);
    pass(7s);
    EXPECT_FALSE(limit.has_expired(1));
    EXPECT_EQ(limit.deadline().left(), 1s);
    pass(1s);
    EXPECT_TRUE(limit.has_expired(1));
  });
}

TEST_F(ProgressLimitTest, ProgressBeginsItAnewHoweverOften) {
  run([&] {
    ProgressLimit limit(8s, 0);
    for (std::uint64_t progress = 1; progress < 100; ++progress) {
      pass(7s);
      EXPECT_FALSE(limit.has_expired(progress));
      EXPECT_EQ(limit.deadline().left(), 8s);
    }
  });
}

TEST_F(ProgressLimitTest, NoLimitNeverEnds) {
  run([&] {
    ProgressLimit limit(std::chrono::nanoseconds::max(), 0);
    pass(1000h);
    EXPECT_FALSE(limit.has_expired(0));
    EXPECT_TRUE(limit.deadline().is_never());
  });
}

TEST_F(ProgressLimitTest, AWaitWithoutADeadlineGoesOnAsLongAsTheOtherSideDoes) {
  run([&] {
    Source source;
    Promise<int> promise(PendingOptions{.subject = "a sum", .helper = source.helper(8s)});
    const auto worker = executor_.spawn({.name = "worker"}, [&] {
      for (int i = 0; i < 10; ++i) {
        pass(6s);
        ++source.progress;
      }
      promise.set_value(5);
    });
    EXPECT_EQ(promise.pending().get(), 5);
    EXPECT_EQ(now().time_since_epoch(), 60s);
    worker->join();
  });
}

TEST_F(ProgressLimitTest, AWaitEndsOnceTheOtherSideHangs) {
  run([&] {
    Source source;
    Promise<int> promise(PendingOptions{.subject = "a sum", .helper = source.helper(8s)});
    const auto worker = executor_.spawn({.name = "worker"}, [&] {
      pass(6500ms);
      ++source.progress;
    });
    EXPECT_THROW(promise.pending().get(), DeadlineExceeded);
    EXPECT_EQ(now().time_since_epoch(), 7s + 8s) << "it was seen at the next look";
    worker->join();
  });
}

TEST_F(ProgressLimitTest, ADeadlineThatIsNamedIsExactWhateverTheOtherSideDoes) {
  run([&] {
    Source source;
    Promise<int> promise(PendingOptions{.subject = "a sum", .helper = source.helper(8s)});
    bool is_over = false;
    const auto worker = executor_.spawn({.name = "worker"}, [&] {
      while (!is_over) {
        pass(1ms);
        ++source.progress;
      }
    });
    EXPECT_THROW(promise.pending().get({.deadline = Deadline::in(5ms)}), DeadlineExceeded);
    EXPECT_EQ(now().time_since_epoch(), 5ms);
    is_over = true;
    worker->join();
  });
}

TEST_F(ProgressLimitTest, AContinuationsResultWaitsAsItsSourceDoes) {
  run([&] {
    Source source;
    {
      ContinuationRunner runner(executor_);
      Promise<int> promise(PendingOptions{.subject = "a sum", .helper = source.helper(8s)});
      Pending<int> next = promise.pending().then(runner, [](int value) { return value + 1; });
      const auto worker = executor_.spawn({.name = "worker"}, [&] {
        pass(5500ms);
        ++source.progress;
      });
      EXPECT_THROW(next.get(), DeadlineExceeded);
      EXPECT_EQ(now().time_since_epoch(), 6s + 8s);
      promise.set_value(1);
      EXPECT_EQ(next.get(), 2);
      worker->join();
    }
    EXPECT_EQ(source.holders, 0);
  });
}

// A worker's result has a limit, and no source whose progress renews it.
TEST_F(ProgressLimitTest, AContinuationsResultHasTheLimitOfASourceWithoutProgress) {
  run([&] {
    ContinuationRunner runner(executor_);
    Promise<int> promise(PendingOptions{.subject = "a sum", .helper = {.limit = 2s}});
    Pending<int> next = promise.pending().then(runner, [](int value) { return value + 1; });
    EXPECT_THROW(next.get(), DeadlineExceeded);
    EXPECT_EQ(now().time_since_epoch(), 2s);
    promise.set_value(1);
    EXPECT_EQ(next.get(), 2);
  });
}

}  // namespace
}  // namespace hearth
