#include <hearth/runtime/base/trace.hpp>

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/base/thread_executor.hpp>

namespace hearth {
namespace {

detail::TraceEvent event(std::string_view name) {
  return {.name = name, .device = "cpu:0"};
}

std::vector<std::string> names_of(const detail::TraceLog& log) {
  std::vector<std::string> names;
  for (const detail::TraceLog::Thread& thread : log.threads) {
    for (const detail::TraceEvent& each : thread.events) {
      names.emplace_back(each.name);
    }
  }
  return names;
}

TEST(Trace, KeepsWhatCameWhileItWasOn) {
  detail::Trace trace;
  trace.add(event("early"));
  EXPECT_FALSE(trace.is_on());
  ASSERT_TRUE(trace.start().has_value());
  EXPECT_TRUE(trace.is_on());
  trace.add(event("matmul"));
  trace.add(event("add"));
  const detail::TraceLog log = trace.stop().value();
  trace.add(event("late"));
  EXPECT_FALSE(trace.is_on());
  EXPECT_EQ(names_of(log), (std::vector<std::string>{"matmul", "add"}));
  EXPECT_EQ(log.dropped_count, 0U);
}

TEST(Trace, BeginsAnewEachTime) {
  detail::Trace trace;
  ASSERT_TRUE(trace.start().has_value());
  trace.add(event("first"));
  static_cast<void>(trace.stop().value());
  ASSERT_TRUE(trace.start().has_value());
  trace.add(event("second"));
  EXPECT_EQ(names_of(trace.stop().value()), (std::vector<std::string>{"second"}));
}

TEST(Trace, IsOneAtATime) {
  detail::Trace trace;
  ASSERT_TRUE(trace.start().has_value());
  EXPECT_EQ(trace.start().error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(trace.stop().has_value());
  EXPECT_EQ(trace.stop().status().error().code, ErrorCode::invalid_argument);
}

TEST(Trace, CountsWhatItHasNoRoomFor) {
  detail::Trace trace;
  ASSERT_TRUE(
      trace.start(detail::Trace::kChunkEvents + 1).has_value());  // rounded up to two chunks
  for (std::size_t i = 0; i < 2 * detail::Trace::kChunkEvents + 5; ++i) {
    trace.add(event("add"));
  }
  const detail::TraceLog log = trace.stop().value();
  EXPECT_EQ(log.event_count(), 2 * detail::Trace::kChunkEvents);
  EXPECT_EQ(log.dropped_count, 5U);
}

TEST(Trace, KeepsTheEventsOfEachThreadApart) {
  detail::Trace trace;
  ASSERT_TRUE(trace.start().has_value());
  trace.add(event("mine"));
  ThreadExecutor executor;
  ASSERT_TRUE(
      executor.spawn({.name = "other"}, [&] { trace.add(event("its")); })->join(Deadline::never()));
  const detail::TraceLog log = trace.stop().value();
  ASSERT_EQ(log.threads.size(), 2U);
  EXPECT_NE(log.threads[0].id, log.threads[1].id);
  EXPECT_EQ(log.threads[1].name, "other");
  EXPECT_EQ(names_of(log), (std::vector<std::string>{"mine", "its"}));
}

TEST(Trace, KeepsTextsOnce) {
  detail::Trace trace;
  const std::string text = "a part";
  const std::string_view kept = trace.keep(text);
  EXPECT_EQ(kept, text);
  EXPECT_NE(kept.data(), text.data());
  EXPECT_EQ(trace.keep("a part").data(), kept.data());
}

TEST(TraceSpan, MeasuresWithTheClockOfItsThread) {
  detail::Trace trace;
  ASSERT_TRUE(trace.start().has_value());
  ManualExecutor executor;
  executor.run([&] {
    const detail::TraceSpan span(&trace, event("nap"));
    detail::current_context().parker().park(Deadline::in(std::chrono::milliseconds(5)));
  });
  const detail::TraceLog log = trace.stop().value();
  ASSERT_EQ(log.event_count(), 1U);
  const detail::TraceEvent& nap = log.threads[0].events[0];
  EXPECT_EQ(nap.end - nap.begin, std::chrono::milliseconds(5));
}

TEST(TraceSpan, ThatBeganWhileOffStaysSilent) {
  detail::Trace trace;
  {
    const detail::TraceSpan span(&trace, event("early"));
    ASSERT_TRUE(trace.start().has_value());
  }
  EXPECT_EQ(trace.stop().value().event_count(), 0U);
}

}  // namespace
}  // namespace hearth
