#include <hearth/runtime/base/trace.hpp>

#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth {
namespace {

TraceSpan span(std::string_view name) {
  return {.name = name, .device = "cpu:0", .begin = {}, .end = {}};
}

TEST(Trace, IsOnWhileSomeoneListens) {
  Trace trace;
  EXPECT_FALSE(trace.is_on());
  const TraceHookId first = trace.add_hook([](const TraceSpan&) {});
  const TraceHookId second = trace.add_hook([](const TraceSpan&) {});
  EXPECT_TRUE(trace.is_on());
  trace.remove_hook(first);
  EXPECT_TRUE(trace.is_on());
  trace.remove_hook(second);
  EXPECT_FALSE(trace.is_on());
}

TEST(Trace, GivesEachSpanToAllHooksInTheirOrder) {
  Trace trace;
  std::vector<std::string> heard;
  trace.add_hook(
      [&](const TraceSpan& heard_span) { heard.push_back("a " + std::string(heard_span.name)); });
  const TraceHookId second = trace.add_hook(
      [&](const TraceSpan& heard_span) { heard.push_back("b " + std::string(heard_span.name)); });
  trace.record(span("matmul"));
  trace.remove_hook(second);
  trace.record(span("add"));
  EXPECT_EQ(heard, (std::vector<std::string>{"a matmul", "b matmul", "a add"}));
}

TEST(Trace, LetsAHookRemoveItself) {
  Trace trace;
  int count = 0;
  TraceHookId id;
  id = trace.add_hook([&](const TraceSpan&) {
    ++count;
    trace.remove_hook(id);
  });
  trace.record(span("matmul"));
  trace.record(span("matmul"));
  EXPECT_EQ(count, 1);
}

TEST(TraceScope, MeasuresWithTheClockOfItsThread) {
  Trace trace;
  std::vector<std::chrono::nanoseconds> durations;
  trace.add_hook([&](const TraceSpan& heard) { durations.push_back(heard.end - heard.begin); });
  ManualExecutor executor;
  executor.run([&] {
    const TraceScope scope(trace, "nap", "cpu:0");
    current_context().parker().park(Deadline::in(std::chrono::milliseconds(5)));
  });
  EXPECT_EQ(durations, (std::vector<std::chrono::nanoseconds>{std::chrono::milliseconds(5)}));
}

TEST(TraceScope, ThatBeganWhileOffStaysSilent) {
  Trace trace;
  int count = 0;
  {
    const TraceScope scope(trace, "early");
    trace.add_hook([&](const TraceSpan&) { ++count; });
  }
  EXPECT_EQ(count, 0);
}

}  // namespace
}  // namespace hearth
