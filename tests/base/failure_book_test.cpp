#include <hearth/runtime/base/failure_book.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/base/continuation_runner.hpp>
#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

namespace hearth {
namespace {

struct Book {
  std::vector<std::string> lines;
  std::shared_ptr<detail::Log> log = std::make_shared<detail::Log>(detail::LogOptions{
      .output = [this](detail::LogLevel, std::string_view text) { lines.emplace_back(text); }});
  IntrusivePtr<detail::Watchdog> watchdog = make_intrusive<detail::Watchdog>();
  detail::FailureBook& failures = watchdog->failures();

  Book() { failures.open(log); }

  [[nodiscard]] Promise<int> promise() const {
    return Promise<int>(PendingOptions{.subject = "a test", .helper = {.watchdog = watchdog}});
  }
};

ErrorRef some_error(std::uint32_t line = 7, ErrorCode code = ErrorCode::kernel_failed) {
  return std::make_shared<const Error>(Error{.code = code,
                                             .text = "it broke",
                                             .op = "matmul",
                                             .device = "cpu:0",
                                             .stream = 1,
                                             .sequence = 3,
                                             .location = {"model.cpp", line}});
}

TEST(FailureBook, AFailureThatDiesUnreadIsLoggedOnceWithOpAndLine) {
  Book book;
  ErrorRef first = book.failures.enter(some_error());
  ErrorRef second = first;
  auto wrapped = std::make_unique<const Error>(
      Error{.code = ErrorCode::worker_failed, .text = "outer", .cause = first});
  first.reset();
  second.reset();
  EXPECT_TRUE(book.lines.empty()) << "the wrapped one carries it still";
  wrapped.reset();
  ASSERT_EQ(book.lines.size(), 1U);
  EXPECT_NE(book.lines[0].find("unread failure: it broke"), std::string::npos) << book.lines[0];
  EXPECT_NE(book.lines[0].find("op matmul"), std::string::npos) << book.lines[0];
  EXPECT_NE(book.lines[0].find("model.cpp:7"), std::string::npos) << book.lines[0];
  EXPECT_EQ(book.failures.unread_count(), 1U);
}

TEST(FailureBook, AFailureThatWasReadThroughOneCarrierDiesInSilence) {
  Book book;
  ErrorRef entered = book.failures.enter(some_error());
  const Error wrapped{.code = ErrorCode::worker_failed, .text = "outer", .cause = entered};
  detail::mark_read(wrapped);
  EXPECT_TRUE(detail::find_failure(*entered)->is_read());
  EXPECT_EQ(book.failures.unread_count(), 0U);
  detail::mark_unread(*entered);
  EXPECT_EQ(book.failures.unread_count(), 1U);
  detail::mark_read(*entered);
  entered.reset();
  EXPECT_TRUE(book.lines.empty());
}

TEST(FailureBook, ACauseIsEnteredOnce) {
  Book book;
  const ErrorRef entered = book.failures.enter(some_error());
  EXPECT_EQ(book.failures.enter(entered), entered);
  const auto wrapped = std::make_shared<const Error>(
      Error{.code = ErrorCode::worker_failed, .text = "outer", .cause = entered});
  EXPECT_EQ(book.failures.enter(wrapped), wrapped);
  EXPECT_EQ(book.failures.unread_count(), 1U);
  detail::mark_read(*entered);
}

TEST(FailureBook, WhatTheProgramAskedForIsNoFailureUnlessAnUpdateIsLost) {
  Book book;
  for (const ErrorCode code : {ErrorCode::cancelled, ErrorCode::device_closed}) {
    EXPECT_EQ(detail::find_failure(*book.failures.enter(some_error(7, code))), nullptr);
  }
  const ErrorRef closed = some_error(7, ErrorCode::device_closed);
  EXPECT_EQ(book.failures.enter_lost_update(closed), closed);
  const ErrorRef lost = book.failures.enter_lost_update(some_error(7, ErrorCode::cancelled));
  ASSERT_NE(detail::find_failure(*lost), nullptr);
  EXPECT_EQ(book.failures.unread_count(), 1U);
  detail::mark_read(*lost);
}

TEST(FailureBook, EqualFailuresInALoopAreCounted) {
  Book book;
  for (int i = 0; i < 1000; ++i) {
    static_cast<void>(book.failures.enter(some_error()));
  }
  static_cast<void>(book.failures.enter(some_error(8)));
  ASSERT_EQ(book.lines.size(), 5U);
  EXPECT_EQ(book.lines[0].find("such lines"), std::string::npos);
  EXPECT_NE(book.lines[1].find("(10 such lines so far)"), std::string::npos) << book.lines[1];
  EXPECT_NE(book.lines[3].find("(1000 such lines so far)"), std::string::npos) << book.lines[3];
  EXPECT_NE(book.lines[4].find("model.cpp:8"), std::string::npos) << book.lines[4];
  EXPECT_EQ(book.failures.unread_count(), 1001U);
}

TEST(FailureBook, ItsReportHasTheCountAndTheFirstCauses) {
  Book book;
  book.failures.report(*book.log);
  EXPECT_TRUE(book.lines.empty()) << "there is nothing to report";
  std::vector<ErrorRef> carried;
  for (std::uint32_t line = 1; line <= 100; ++line) {
    carried.push_back(book.failures.enter(some_error((line + 1) / 2)));
  }
  detail::mark_read(*carried[0]);
  detail::mark_read(*carried[99]);
  detail::find_failure(*carried[1])->count_op();
  detail::find_failure(*carried[1])->count_op();
  book.failures.close();
  carried.clear();
  EXPECT_TRUE(book.lines.empty()) << "the report says it all";
  book.failures.report(*book.log);
  ASSERT_EQ(book.lines.size(), 1U);
  EXPECT_NE(book.lines[0].find("98 failures were never read"), std::string::npos) << book.lines[0];
  EXPECT_NE(book.lines[0].find("model.cpp:1] (2 ops failed with it)"), std::string::npos);
  EXPECT_NE(book.lines[0].find("model.cpp:3]"), std::string::npos);
  EXPECT_EQ(book.lines[0].find("model.cpp:4]"), std::string::npos) << "three are enough";
}

TEST(FailureBook, ItsReportNamesAFailureThatCameAfterManyThatWereRead) {
  Book book;
  for (std::uint32_t line = 1; line <= 100; ++line) {
    detail::mark_read(*book.failures.enter(some_error(line)));
  }
  const ErrorRef last = book.failures.enter(some_error(101));
  book.failures.close();
  book.failures.report(*book.log);
  ASSERT_EQ(book.lines.size(), 1U);
  EXPECT_NE(book.lines[0].find("model.cpp:101]"), std::string::npos) << book.lines[0];
}

TEST(FailureBook, FailuresOfAStreamThatExpectsThemCountAsRead) {
  Book book;
  book.failures.expect_failures("cpu:0", 1);
  static_cast<void>(book.failures.enter(some_error()));
  EXPECT_EQ(book.failures.unread_count(), 0U);
  book.failures.expect_no_more("cpu:0", 1);
  static_cast<void>(book.failures.enter(some_error()));
  EXPECT_EQ(book.failures.unread_count(), 1U);
}

TEST(FailureBook, APendingThatDiesUnreadIsLogged) {
  Book book;
  {
    Promise<int> promise = book.promise();
    const Pending<int> pending = promise.pending();
    promise.set_error(
        std::make_shared<const Error>(Error{.code = ErrorCode::worker_failed, .text = "it threw"}));
    EXPECT_TRUE(pending.is_ready());
    EXPECT_FALSE(detail::PendingAccess::peek(pending).has_value());
    EXPECT_EQ(book.failures.unread_count(), 1U) << "neither question reads it";
  }
  ASSERT_EQ(book.lines.size(), 1U);
  EXPECT_NE(book.lines[0].find("it threw"), std::string::npos) << book.lines[0];
}

TEST(FailureBook, APendingThatWasReadIsNot) {
  Book book;
  {
    Promise<int> promise = book.promise();
    Pending<int> pending = promise.pending();
    promise.set_error(book.failures.enter(some_error()));
    EXPECT_THROW(pending.get(), DeviceError);
  }
  {
    Promise<int> promise = book.promise();
    const Pending<int> pending = promise.pending();
    promise.set_error(book.failures.enter(some_error()));
    EXPECT_FALSE(pending.wait().has_value());
  }
  static_cast<void>(book.promise().pending());  // cancelled: no work has failed
  EXPECT_TRUE(book.lines.empty());
  EXPECT_EQ(book.failures.unread_count(), 0U);
}

TEST(FailureBook, WhatAContinuationThrowsOnIsToBeReadAgain) {
  Book book;
  ThreadExecutor threads;
  {
    ContinuationRunner runner(threads);
    Promise<int> promise = book.promise();
    Pending<int> passed_on = promise.pending().then(runner, [](int) { return 1; });
    promise.set_error(book.failures.enter(some_error()));
    ASSERT_TRUE(
        detail::PendingAccess::is_ready_by(passed_on, Deadline::in(std::chrono::seconds(30))));
    EXPECT_EQ(book.failures.unread_count(), 1U) << "skipping a function reads nothing";
    EXPECT_THROW(passed_on.get(), DeviceError);
    EXPECT_EQ(book.failures.unread_count(), 0U);

    Promise<int> second = book.promise();
    Pending<int> thrown = second.pending().then(runner, [&passed_on](int) -> int {
      return passed_on.get();  // throws
    });
    second.set_value(1);
    ASSERT_TRUE(detail::PendingAccess::is_ready_by(thrown, Deadline::in(std::chrono::seconds(30))));
    EXPECT_EQ(book.failures.unread_count(), 1U);
  }
  EXPECT_EQ(book.lines.size(), 1U);
}

TEST(FailureBook, ItsFailuresMayOutliveItsLog) {
  ErrorRef carried;
  {
    Book book;
    carried = book.failures.enter(some_error());
  }
  EXPECT_FALSE(detail::find_failure(*carried)->is_read());
  carried.reset();
}

}  // namespace
}  // namespace hearth
