#include <hearth/runtime/base/owned_thread.hpp>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The promise that a body waits for, and the object that it owns.
class OwnedThreadTest : public ::testing::Test {
 protected:
  [[nodiscard]] detail::OwnedThread start(detail::Executor& executor,
                                          std::chrono::nanoseconds limit) {
    return detail::OwnedThread(executor,
                               {.name = "user's"},
                               {.subject = "a test's thread",
                                .observe = [] { return std::string("runs a function"); },
                                .limit = limit,
                                .log = &log_},
                               [owned = owned_, released = released_] {
                                 static_cast<void>(released->wait({.deadline = Deadline::never()}));
                                 *owned = 2;
                               });
  }

  std::vector<std::string> lines_;
  detail::Log log_{
      {.output = [this](detail::LogLevel, std::string_view line) { lines_.emplace_back(line); }}};
  std::shared_ptr<int> owned_ = std::make_shared<int>(1);
  Promise<void> release_;
  const std::shared_ptr<const Pending<void>> released_ =
      std::make_shared<const Pending<void>>(release_.pending());
};

const char* const kLine = "a test's thread does not end: runs a function; its thread is abandoned";

TEST_F(OwnedThreadTest, ThatComesBackIsJoinedAndNothingIsSaid) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ManualExecutor executor(seed);
    executor.run([&] {
      Promise<void> go;
      const auto wait = std::make_shared<const Pending<void>>(go.pending());
      detail::OwnedThread thread(executor,
                                 {.name = "user's"},
                                 {.subject = "a thread", .observe = [] { return std::string(); }},
                                 [wait, owned = owned_] { static_cast<void>(wait->wait()); });
      go.set_value();
      EXPECT_TRUE(thread.end(Deadline::in(1s)));
      EXPECT_EQ(owned_.use_count(), 1);
      EXPECT_TRUE(thread.end(Deadline::in(1s)));
    });
    EXPECT_EQ(executor.clock().now().time_since_epoch(), std::chrono::nanoseconds::zero());
  }
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(OwnedThreadTest, ThatHangsIsNamedAtTheLimitAndLeftBehind) {
  ManualExecutor executor;
  executor.run([&] {
    const detail::TimePoint begin = executor.clock().now();
    {
      detail::OwnedThread thread = start(executor, 20s);
      EXPECT_FALSE(thread.end(Deadline::in(5s)));
      EXPECT_EQ(executor.clock().now() - begin, 5s);
      EXPECT_FALSE(thread.end(Deadline::in(5s)));
    }
    EXPECT_EQ(executor.clock().now() - begin, 5s);
    EXPECT_THAT(lines_, ElementsAre(kLine));
    release_.set_value();  // the thread ends later, with its objects
    detail::current_context().parker().park(Deadline::in(1s));
    EXPECT_EQ(*owned_, 2);
    EXPECT_EQ(owned_.use_count(), 1);
  });
}

TEST_F(OwnedThreadTest, TheDestructorWaitsUpToTheLimitOfTheOptions) {
  ManualExecutor executor;
  executor.run([&] {
    const detail::TimePoint begin = executor.clock().now();
    { const detail::OwnedThread thread = start(executor, 7s); }
    EXPECT_EQ(executor.clock().now() - begin, 7s);
    EXPECT_THAT(lines_, ElementsAre(kLine));
    release_.set_value();
  });
}

TEST_F(OwnedThreadTest, AThreadOfTheSystemIsLeftBehindToo) {
  ThreadExecutor executor;
  Promise<void> last;
  const Pending<void> ended = last.pending();
  {
    const detail::OwnedThread thread(
        executor,
        {.name = "user's"},
        {.subject = "a test's thread",
         .observe = [] { return std::string("runs a function"); },
         .limit = 1ms,
         .log = &log_},
        [owned = owned_, released = released_, last = std::move(last)]() mutable {
          static_cast<void>(released->wait({.deadline = Deadline::never()}));
          *owned = 2;
          last.set_value();
        });
  }
  EXPECT_THAT(lines_, ElementsAre(kLine));
  release_.set_value();
  ASSERT_TRUE(ended.wait().has_value());
  EXPECT_EQ(*owned_, 2);
}

TEST_F(OwnedThreadTest, AThreadOfTheSystemThatComesBackIsOverWhenEndSaysSo) {
  ThreadExecutor executor;
  for (int round = 0; round < 50; ++round) {
    detail::OwnedThread thread(executor,
                               {.name = "user's"},
                               {.subject = "a thread", .observe = [] { return std::string(); }},
                               [owned = owned_] { *owned = 3; });
    EXPECT_TRUE(thread.end(Deadline::in(kDefaultWait)));
    EXPECT_EQ(owned_.use_count(), 1);
  }
  EXPECT_THAT(lines_, IsEmpty());
}

}  // namespace
}  // namespace hearth
