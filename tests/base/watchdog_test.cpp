#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/watchdog.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

class WatchdogTest : public ::testing::Test {
 protected:
  // Runs the body as the logical thread "main", in virtual time.
  template <class Body>
  void run(Body body) {
    executor_.run([&] { body(); });
  }
  [[nodiscard]] Promise<int> promise(std::string subject) const {
    return Promise<int>(PendingOptions{.subject = std::move(subject),
                                       .helper = {.awaited_name = "sim:7", .watchdog = watchdog_}});
  }

  ManualExecutor executor_;
  IntrusivePtr<detail::Watchdog> watchdog_ = make_intrusive<detail::Watchdog>();
};

TEST_F(WatchdogTest, ADeadlineThatPassesNamesWhoWaitsForWhom) {
  run([&] {
    Promise<int> other = promise("the slow one");
    Pending<int> slow = other.pending();
    const auto user =
        executor_.spawn({.name = "user"}, [&] { EXPECT_EQ(std::move(slow).get(), 5); });
    Promise<int> mine = promise("a readback");
    const Status status = mine.pending().wait({.deadline = Deadline::in(20s)});
    ASSERT_EQ(status.error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(status.error().device, "sim:7");
    const std::string report = status.error().report();
    EXPECT_THAT(report, HasSubstr("thread main (number "));
    EXPECT_THAT(report, HasSubstr("stopped waiting for a readback"));
    EXPECT_THAT(report, HasSubstr("thread user (number "));
    EXPECT_THAT(report, HasSubstr("waits for the slow one of sim:7: 40.000 s more"));
    EXPECT_THAT(status.error().to_string(), HasSubstr("error().report() lists the open waits"));
    other.set_value(5);
    user->join();
  });
}

TEST_F(WatchdogTest, AWaitThatIsOverIsNotInTheReport) {
  run([&] {
    Promise<int> done = promise("the quick one");
    Pending<int> pending = done.pending();
    const auto user =
        executor_.spawn({.name = "user"}, [&] { EXPECT_EQ(std::move(pending).get(), 5); });
    done.set_value(5);
    user->join();
    EXPECT_THAT(watchdog_->report("nothing"), Not(HasSubstr("quick")));
    EXPECT_EQ(watchdog_->waits(), "");
  });
}

TEST_F(WatchdogTest, WitnessesAreAskedAndAnswerOnTheirOwnThread) {
  run([&] {
    detail::Mailbox<Promise<std::string>> questions;
    const auto worker = executor_.spawn({.name = "worker"}, [&] {
      while (auto question = questions.pop(Deadline::never())) {
        question->set_value("asked on " + detail::current_context().name());
      }
    });
    {
      const auto kept = watchdog_->watch(
          {.name = "worker 0",
           .ask = [&](Promise<std::string> answer) { questions.push(std::move(answer)); },
           .observe = [] { return std::string("unseen"); }});
      EXPECT_THAT(watchdog_->report("x"), HasSubstr("\n  worker 0: asked on worker"));
    }
    EXPECT_THAT(watchdog_->report("x"), Not(HasSubstr("worker 0"))) << "it is watched no more";
    questions.close();
    worker->join();
  });
}

TEST_F(WatchdogTest, AWitnessThatDoesNotAnswerIsNamedAtTheLimit) {
  run([&] {
    std::vector<Promise<std::string>> kept;
    std::vector<std::shared_ptr<const void>> witnesses;
    for (const char* name : {"first", "second"}) {
      witnesses.push_back(watchdog_->watch(
          {.name = name,
           .ask = [&](Promise<std::string> answer) { kept.push_back(std::move(answer)); },
           .observe = [] { return std::string("it holds its token"); }}));
    }
    const detail::TimePoint start = executor_.clock().now();
    const std::string report = watchdog_->report("x");
    EXPECT_EQ(executor_.clock().now() - start, detail::Watchdog::kAnswerLimit)
        << "together, not each";
    EXPECT_THAT(report, HasSubstr("first: it holds its token; no answer within 100ms"));
    EXPECT_THAT(report, HasSubstr("second: it holds its token; no answer within 100ms"));
  });
}

TEST_F(WatchdogTest, AWitnessThatDropsTheQuestionHasEnded) {
  run([&] {
    const auto kept = watchdog_->watch({.name = "gone",
                                        .ask = [](Promise<std::string> /*answer*/) {},
                                        .observe = [] { return std::string("unseen"); }});
    EXPECT_THAT(watchdog_->report("x"), HasSubstr("gone: has ended"));
  });
}

TEST_F(WatchdogTest, AWaitEndsAtItsDeadlineAndItsReportIsMadeWhenSomebodyAsks) {
  run([&] {
    std::vector<Promise<std::string>> kept;
    const auto silent = watchdog_->watch(
        {.name = "busy",
         .ask = [&](Promise<std::string> answer) { kept.push_back(std::move(answer)); },
         .observe = [] { return std::string("it computes"); }});
    Promise<int> mine = promise("a readback");
    const detail::TimePoint start = executor_.clock().now();
    const Status status = mine.pending().wait({.deadline = Deadline::in(5ms)});
    EXPECT_EQ(executor_.clock().now() - start, 5ms);
    EXPECT_TRUE(kept.empty()) << "nobody was asked";
    EXPECT_EQ(status.error().report.made(), "");
    EXPECT_THAT(status.error().report(), HasSubstr("busy: it computes; no answer within 100ms"));
    EXPECT_EQ(executor_.clock().now() - start, 5ms + detail::Watchdog::kAnswerLimit);
  });
}

TEST_F(WatchdogTest, AnEagerOneMakesTheReportWithTheError) {
  run([&] {
    watchdog_ = make_intrusive<detail::Watchdog>(true);
    std::string state = "it computes";
    const auto witness =
        watchdog_->watch({.name = "busy",
                          .ask = [&](Promise<std::string> answer) { answer.set_value(state); },
                          .observe = [] { return std::string("unseen"); }});
    Promise<int> mine = promise("a readback");
    const Status status = mine.pending().wait({.deadline = Deadline::in(5ms)});
    state = "it is done";
    EXPECT_THAT(status.error().report(), HasSubstr("busy: it computes"));
    EXPECT_THAT(status.error().to_string(), HasSubstr("busy: it computes")) << "for logs";
  });
}

TEST_F(WatchdogTest, AReportCanBeAskedForAfterTheWatchdogsOwnerHasEnded) {
  Error error;
  run([&] {
    Promise<int> mine = promise("a readback");
    error = mine.pending().wait({.deadline = Deadline::in(5ms)}).error();
  });
  watchdog_ = nullptr;
  EXPECT_THAT(error.report(), HasSubstr("stopped waiting for a readback; open waits:\n  none"));
}

TEST_F(WatchdogTest, WithoutOneTheErrorHasNoReport) {
  run([&] {
    Promise<int> mine(PendingOptions{.subject = "a readback"});
    EXPECT_EQ(mine.pending().wait({.deadline = Deadline::in(1s)}).error().report(), "");
  });
}

}  // namespace
}  // namespace hearth
