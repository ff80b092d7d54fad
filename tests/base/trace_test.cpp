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

TraceEvent event(std::string_view name) {
  return {.name = name, .device = "cpu:0"};
}

std::vector<std::string> names_of(const TraceLog& log) {
  std::vector<std::string> names;
  for (const TraceLog::Thread& thread : log.threads) {
    for (const TraceEvent& each : thread.events) {
      names.emplace_back(each.name);
    }
  }
  return names;
}

TEST(Trace, KeepsWhatCameWhileItWasOn) {
  Trace trace;
  trace.add(event("early"));
  EXPECT_FALSE(trace.is_on());
  ASSERT_TRUE(trace.start().has_value());
  EXPECT_TRUE(trace.is_on());
  trace.add(event("matmul"));
  trace.add(event("add"));
  const TraceLog log = trace.stop().value();
  trace.add(event("late"));
  EXPECT_FALSE(trace.is_on());
  EXPECT_EQ(names_of(log), (std::vector<std::string>{"matmul", "add"}));
  EXPECT_EQ(log.dropped_count, 0U);
}

TEST(Trace, BeginsAnewEachTime) {
  Trace trace;
  ASSERT_TRUE(trace.start().has_value());
  trace.add(event("first"));
  static_cast<void>(trace.stop().value());
  ASSERT_TRUE(trace.start().has_value());
  trace.add(event("second"));
  EXPECT_EQ(names_of(trace.stop().value()), (std::vector<std::string>{"second"}));
}

TEST(Trace, IsOneAtATime) {
  Trace trace;
  ASSERT_TRUE(trace.start().has_value());
  EXPECT_EQ(trace.start().error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(trace.stop().has_value());
  EXPECT_EQ(trace.stop().status().error().code, ErrorCode::invalid_argument);
}

TEST(Trace, CountsWhatItHasNoRoomFor) {
  Trace trace;
  ASSERT_TRUE(trace.start(Trace::kChunkEvents + 1).has_value());  // rounded up to two chunks
  for (std::size_t i = 0; i < 2 * Trace::kChunkEvents + 5; ++i) {
    trace.add(event("add"));
  }
  const TraceLog log = trace.stop().value();
  EXPECT_EQ(log.event_count(), 2 * Trace::kChunkEvents);
  EXPECT_EQ(log.dropped_count, 5U);
}

TEST(Trace, KeepsTheEventsOfEachThreadApart) {
  Trace trace;
  ASSERT_TRUE(trace.start().has_value());
  trace.add(event("mine"));
  ThreadExecutor executor;
  ASSERT_TRUE(
      executor.spawn({.name = "other"}, [&] { trace.add(event("its")); })->join(Deadline::never()));
  const TraceLog log = trace.stop().value();
  ASSERT_EQ(log.threads.size(), 2U);
  EXPECT_NE(log.threads[0].id, log.threads[1].id);
  EXPECT_EQ(log.threads[1].name, "other");
  EXPECT_EQ(names_of(log), (std::vector<std::string>{"mine", "its"}));
}

TEST(Trace, KeepsTextsOnce) {
  Trace trace;
  const std::string text = "a part";
  const std::string_view kept = trace.keep(text);
  EXPECT_EQ(kept, text);
  EXPECT_NE(kept.data(), text.data());
  EXPECT_EQ(trace.keep("a part").data(), kept.data());
}

TEST(TraceSpan, MeasuresWithTheClockOfItsThread) {
  Trace trace;
  ASSERT_TRUE(trace.start().has_value());
  ManualExecutor executor;
  executor.run([&] {
    const TraceSpan span(&trace, event("nap"));
    current_context().parker().park(Deadline::in(std::chrono::milliseconds(5)));
  });
  const TraceLog log = trace.stop().value();
  ASSERT_EQ(log.event_count(), 1U);
  const TraceEvent& nap = log.threads[0].events[0];
  EXPECT_EQ(nap.end - nap.begin, std::chrono::milliseconds(5));
}

TEST(TraceSpan, ThatBeganWhileOffStaysSilent) {
  Trace trace;
  {
    const TraceSpan span(&trace, event("early"));
    ASSERT_TRUE(trace.start().has_value());
  }
  EXPECT_EQ(trace.stop().value().event_count(), 0U);
}

}  // namespace
}  // namespace hearth
