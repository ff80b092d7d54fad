#include <hearth/runtime/base/chrome_trace.hpp>

#include <chrono>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <hearth/runtime/base/file.hpp>

#include "temporary_folder.hpp"
#include "tests/support/trace_schema.hpp"

namespace hearth {
namespace {

using std::chrono::microseconds;

detail::TraceEvent span(std::string_view name, std::string_view device, int begin_us, int end_us) {
  return {.name = name,
          .device = device,
          .begin = detail::TimePoint(microseconds(begin_us)),
          .end = detail::TimePoint(microseconds(end_us))};
}

struct Tables {
  ShapeTable shapes;
  PathTable paths;
};

detail::TraceLog log_of(std::vector<detail::TraceEvent> events) {
  detail::TraceLog log{.begin = detail::TimePoint(microseconds(1000)), .threads = {}};
  log.threads.push_back({.id = 1, .name = "main", .events = std::move(events)});
  return log;
}

nlohmann::json written(const detail::TraceLog& log, const Tables& tables) {
  std::string text;
  const Status status = write_chrome_trace(
      log, {.shapes = tables.shapes, .paths = tables.paths}, [&](std::string_view piece) -> Status {
        text += piece;
        return {};
      });
  EXPECT_TRUE(status.has_value());
  return nlohmann::json::parse(text);
}

std::vector<nlohmann::json> of_phase(const nlohmann::json& trace, const std::string& phase) {
  std::vector<nlohmann::json> events;
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == phase) {
      events.push_back(event);
    }
  }
  return events;
}

TEST(ChromeTrace, WritesSpansInMicrosecondsByTime) {
  const Tables tables;
  const nlohmann::json trace = written(
      log_of({span("matmul", "cpu:0", 1005, 1025), span("add", "cpu:1", 1001, 1002)}), tables);
  const std::vector<nlohmann::json> spans = of_phase(trace, "X");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].at("name"), "add");
  EXPECT_EQ(spans[1].at("ts"), 5.0);
  EXPECT_EQ(spans[1].at("dur"), 20.0);
  EXPECT_NE(spans[0].at("pid"), spans[1].at("pid"));
  EXPECT_EQ(testing::schema_faults(trace), std::vector<std::string>{});
}

TEST(ChromeTrace, SaysWhatAKernelWas) {
  Tables tables;
  detail::TraceEvent kernel = span("matmul", "cpu:0", 1000, 1001);
  kernel.shape = tables.shapes.intern(Shape{64, 10}).value();
  kernel.has_shape = true;
  kernel.path = tables.paths.intern("blocks.0.linear.weight");
  kernel.location = {"train.cpp", 12};
  kernel.lane = LaneId{3};
  kernel.op_count = 2;
  const nlohmann::json facts = of_phase(written(log_of({kernel}), tables), "X").front().at("args");
  EXPECT_EQ(facts.at("shape"), "f32[64, 10]");
  EXPECT_EQ(facts.at("layer"), "blocks.0.linear");
  EXPECT_EQ(facts.at("tensor"), "blocks.0.linear.weight");
  EXPECT_EQ(facts.at("line"), "train.cpp:12");
  EXPECT_EQ(facts.at("stream"), 3);
  EXPECT_EQ(facts.at("ops"), 2);
}

TEST(ChromeTrace, GivesWhatOverlapsATrackBeside) {
  const Tables tables;
  const nlohmann::json trace = written(log_of({span("a", "cpu:0", 1000, 1010),
                                               span("inside", "cpu:0", 1002, 1004),
                                               span("b", "cpu:0", 1005, 1020),
                                               span("c", "cpu:0", 1010, 1030)}),
                                       tables);
  EXPECT_EQ(testing::schema_faults(trace), std::vector<std::string>{});
  const std::vector<nlohmann::json> spans = of_phase(trace, "X");
  EXPECT_EQ(spans[0].at("tid"), spans[1].at("tid"));
  EXPECT_NE(spans[0].at("tid"), spans[2].at("tid"));
  EXPECT_EQ(spans[0].at("tid"), spans[3].at("tid"));
}

TEST(ChromeTrace, KeepsWaitsAndPartsOfAThreadApart) {
  const Tables tables;
  detail::TraceEvent wait = span("sync", "", 1000, 1010);
  wait.track = detail::TraceTrack::waits;
  detail::TraceEvent part = span("validation", "", 1001, 1020);
  part.track = detail::TraceTrack::parts;
  const nlohmann::json trace = written(log_of({wait, part}), tables);
  EXPECT_EQ(testing::schema_faults(trace), std::vector<std::string>{});
  std::vector<std::string> names;
  for (const nlohmann::json& event : of_phase(trace, "M")) {
    if (event.at("name") == "thread_name") {
      names.push_back(event.at("args").at("name"));
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"main: parts", "main: waits"}));
}

TEST(ChromeTrace, WritesCountersOfADevice) {
  const Tables tables;
  detail::TraceEvent memory = span("", "cpu:0", 1003, 1003);
  memory.track = detail::TraceTrack::memory;
  memory.value = 4096;
  memory.other = 8192;
  const nlohmann::json trace = written(log_of({memory}), tables);
  EXPECT_EQ(testing::schema_faults(trace), std::vector<std::string>{});
  const nlohmann::json counter = of_phase(trace, "C").at(0);
  EXPECT_EQ(counter.at("args").at("live"), 4096);
  EXPECT_EQ(counter.at("args").at("reserved"), 8192);
}

TEST(ChromeTrace, EscapesWhateverANameHolds) {
  const Tables tables;
  const nlohmann::json trace =
      written(log_of({span("a \"quoted\"\n\xff name", "cpu:0", 1000, 1001)}), tables);
  EXPECT_EQ(of_phase(trace, "X").size(), 1U);
}

TEST(ChromeTrace, SaysWhatWasNotKept) {
  const Tables tables;
  detail::TraceLog log = log_of({});
  log.dropped_count = 7;
  const nlohmann::json trace = written(log, tables);
  EXPECT_TRUE(trace.at("traceEvents").empty());
  EXPECT_EQ(trace.at("otherData").at("dropped_events"), 7);
}

TEST(ChromeTrace, WritesAFile) {
  const TemporaryFolder folder;
  const Tables tables;
  const std::filesystem::path path = folder.path() / "trace.json";
  ASSERT_TRUE(write_chrome_trace(log_of({span("add", "cpu:0", 1000, 1001)}),
                                 {.shapes = tables.shapes, .paths = tables.paths},
                                 path)
                  .has_value());
  EXPECT_GT(read_file(path).value().size(), 100U);
}

// Each trace breaks one rule.
TEST(TraceSchema, FindsWhatPerfettoWouldNotShow) {
  const auto faults = [](const std::string& events) {
    const std::string names =
        R"({"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"p"}},)"
        R"({"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"t"}},)";
    return testing::schema_faults(
        nlohmann::json::parse(R"({"traceEvents":[)" + names + events + "]}"));
  };
  const std::string span = R"({"ph":"X","name":"a","cat":"c","pid":1,"tid":1,)";
  const std::string counter = R"({"ph":"C","name":"m","pid":1,"tid":0,)";
  EXPECT_EQ(faults(span + R"("ts":0,"dur":5})"), std::vector<std::string>{});
  EXPECT_EQ(faults(counter + R"("ts":0,"args":{"live":3}})"), std::vector<std::string>{});
  const std::vector<std::string> wrong{
      span + R"("ts":0})",
      span + R"("ts":"0","dur":5})",
      span + R"("ts":-1,"dur":5})",
      span + R"("ts":0,"dur":-5})",
      span + R"("ts":0,"dur":5,"args":[3]})",
      span + R"("ts":0,"dur":5},)" + span + R"("ts":3,"dur":5})",
      span + R"("ts":4,"dur":1},)" + span + R"("ts":3,"dur":1})",
      R"({"ph":"X","cat":"c","pid":1,"tid":1,"ts":0,"dur":5})",
      R"({"ph":"X","name":"","cat":"c","pid":1,"tid":1,"ts":0,"dur":5})",
      R"({"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":5})",
      R"({"ph":"X","name":"a","cat":"c","pid":"1","tid":1,"ts":0,"dur":5})",
      R"({"ph":"X","name":"a","cat":"c","pid":1,"tid":1.5,"ts":0,"dur":5})",
      R"({"ph":"X","name":"a","cat":"c","pid":1,"tid":2,"ts":0,"dur":5})",
      R"({"ph":"X","name":"a","cat":"c","pid":7,"tid":1,"ts":0,"dur":5})",
      R"({"ph":"B","name":"a","cat":"c","pid":1,"tid":1,"ts":0})",
      R"({"ph":"s","name":"a","cat":"c","pid":1,"tid":1,"ts":0,"id":3})",
      counter + R"("ts":0,"args":{}})",
      counter + R"("ts":0,"args":{"live":"much"}})",
      counter + R"("ts":0,"args":{"live":3}},)" + counter + R"("ts":1,"args":{"dead":3}})",
      R"({"ph":"M","name":"nonsense","pid":1,"tid":0,"args":{}})"};
  for (const std::string& events : wrong) {
    EXPECT_FALSE(faults(events).empty()) << events;
  }
}

}  // namespace
}  // namespace hearth
