#include <hearth/runtime/base/standby_crew.hpp>

#include <hearth/runtime/base/cores.hpp>
#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <array>
#include <atomic>
#include <cstddef>

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;

// Musters until `wanted` threads are present; returns their final number.
int muster_until(StandbyCrew& crew, int wanted) {
  const Deadline deadline = Deadline::in(20s);
  int count = crew.request_threads();
  while (count != wanted && !deadline.has_passed()) {
    count = crew.request_threads();
  }
  return count;
}

void rest(std::chrono::nanoseconds duration) {
  const Deadline deadline = Deadline::in(duration);
  while (!deadline.has_passed()) {
    static_cast<void>(detail::current_context().parker().park(deadline));
  }
}

struct Work {
  std::array<std::atomic<int>, 4> runs{};
  std::atomic<int> on_others{0};
  detail::ThreadId caller = detail::current_context().id();

  static void share(const void* context, int index, int count) {
    auto* work = static_cast<Work*>(const_cast<void*>(context));
    ASSERT_LT(index, count);
    std::atomic<int> busy{0};
    while (busy.fetch_add(1, std::memory_order_relaxed) < 200) {
    }
    work->runs.at(static_cast<std::size_t>(index)).fetch_add(1, std::memory_order_relaxed);
    work->on_others.fetch_add(detail::current_context().id() != work->caller ? 1 : 0,
                              std::memory_order_relaxed);
  }
};

TEST(StandbyCrew, RunsEachShareOnceWhetherItIsAwakeOrNot) {
  ThreadExecutor executor;
  StandbyCrew crew(executor, {}, 3);
  Work work;
  // On a busy machine the crew may not run for a while.
  const bool has_others = available_cores().size() > 1;
  const Deadline deadline = Deadline::in(20s);
  int times = 0;
  while (times < 20'000 || (has_others && work.on_others.load() == 0 && !deadline.has_passed())) {
    for (int count = 1; count <= 4; ++count) {
      static_cast<void>(crew.request_threads());
      crew.run(count, &Work::share, &work);
    }
    times += 4;
  }
  EXPECT_EQ(work.runs[0].load(), times);
  EXPECT_EQ(work.runs[1].load(), times / 4 * 3);
  EXPECT_EQ(work.runs[2].load(), times / 2);
  EXPECT_EQ(work.runs[3].load(), times / 4);
  EXPECT_TRUE(work.on_others.load() > 0 || !has_others);
}

TEST(StandbyCrew, IsWokenByABurstAndSleepsAgain) {
  if (available_cores().size() == 1) {
    GTEST_SKIP() << "on one core the crew may never come to a share";
  }
  ThreadExecutor executor;
  StandbyCrew crew(executor, {}, 1);
  for (int i = 1; i < StandbyCrew::kBurst; ++i) {
    EXPECT_EQ(crew.request_threads(), 1);
  }
  EXPECT_EQ(muster_until(crew, 2), 2);
  Work work;
  const Deadline deadline = Deadline::in(20s);
  while (work.on_others.load() == 0 && !deadline.has_passed()) {
    static_cast<void>(crew.request_threads());
    crew.run(2, &Work::share, &work);
  }
  EXPECT_GT(work.on_others.load(), 0) << "the crew took a share";
  while (crew.request_threads() != 1 && !deadline.has_passed()) {
    rest(2 * StandbyCrew::kLinger);
  }
  EXPECT_EQ(crew.request_threads(), 1) << "it sleeps";
}

TEST(StandbyCrew, IsNotWokenByWorkThatComesNowAndThen) {
  ThreadExecutor executor;
  StandbyCrew crew(executor, {}, 1);
  for (int i = 0; i < 3 * StandbyCrew::kBurst; ++i) {
    EXPECT_EQ(crew.request_threads(), 1);
    rest(2 * StandbyCrew::kGap);
  }
}

// Each state of the crew: never woken, about to wake, awake, asleep again.
TEST(StandbyCrew, EndsWhateverItDoes) {
  ThreadExecutor executor;
  for (int round = 0; round < 50; ++round) {
    const StandbyCrew never(executor, {}, 2);
    StandbyCrew waking(executor, {}, 2);
    for (int i = 0; i < StandbyCrew::kBurst + round; ++i) {
      static_cast<void>(waking.request_threads());
    }
    if (round % 10 == 0) {
      StandbyCrew awake(executor, {}, 1);
      EXPECT_EQ(muster_until(awake, 2), 2);
      StandbyCrew asleep(executor, {}, 1);
      EXPECT_EQ(muster_until(asleep, 2), 2);
      rest(5 * StandbyCrew::kLinger);
    }
  }
}

class RefusingExecutor final : public detail::Executor {
 public:
  std::unique_ptr<detail::Joinable> spawn(detail::ThreadOptions /*options*/,
                                          UniqueFunction<void()> /*body*/) override {
    throw_error(Error{.code = ErrorCode::out_of_memory, .text = "no thread for a test"});
  }
  [[nodiscard]] bool is_manual() const noexcept override { return false; }
  [[nodiscard]] detail::Clock& clock() noexcept override { return clock_; }

 private:
  detail::SteadyClock clock_;
};

TEST(StandbyCrew, WithoutThreadsTheCallerWorksAloneAndItIsSaidOnce) {
  RefusingExecutor executor;
  StandbyCrew crew(executor, {}, 2);
  Work work;
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 3 * StandbyCrew::kBurst; ++i) {
    EXPECT_EQ(crew.request_threads(), 1);
    crew.run(1, &Work::share, &work);
  }
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("short kernels stay on one core: no thread for a test"), std::string::npos);
  EXPECT_EQ(said.find("short kernels"), said.rfind("short kernels"));
  EXPECT_EQ(work.runs[0].load(), 3 * StandbyCrew::kBurst);
}

}  // namespace
}  // namespace hearth
