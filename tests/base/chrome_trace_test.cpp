#include <hearth/runtime/base/chrome_trace.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <hearth/runtime/base/file.hpp>

#include "temporary_folder.hpp"

namespace hearth {
namespace {

using std::chrono::microseconds;

TraceSpan span(std::string_view name, std::string_view device, int begin_us, int end_us) {
  return {.name = name,
          .device = device,
          .begin = detail::TimePoint(microseconds(begin_us)),
          .end = detail::TimePoint(microseconds(end_us))};
}

TEST(ChromeTrace, WritesSpansInMicrosecondsFromTheFirst) {
  Trace trace;
  const ChromeTrace chrome(trace);
  trace.record(span("matmul", "cpu:0", 1005, 1025));
  trace.record(span("upload", "", 1000, 1002));
  const nlohmann::json json = nlohmann::json::parse(chrome.to_json());
  std::vector<nlohmann::json> spans;
  std::vector<std::string> devices;
  for (const nlohmann::json& event : json.at("traceEvents")) {
    if (event.at("ph") == "X") {
      spans.push_back(event);
    } else {
      devices.push_back(event.at("args").at("name"));
    }
  }
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].at("name"), "matmul");
  EXPECT_EQ(spans[0].at("ts"), 5.0);
  EXPECT_EQ(spans[0].at("dur"), 20.0);
  EXPECT_EQ(spans[1].at("ts"), 0.0);
  EXPECT_NE(spans[0].at("pid"), spans[1].at("pid"));
  EXPECT_EQ(devices, (std::vector<std::string>{"host", "cpu:0"}));
}

TEST(ChromeTrace, EscapesWhateverANameHolds) {
  Trace trace;
  const ChromeTrace chrome(trace);
  trace.record(span("a \"quoted\"\n\xff name", "cpu:0", 0, 1));
  EXPECT_TRUE(nlohmann::json::accept(chrome.to_json()));
}

TEST(ChromeTrace, WithoutSpansIsStillJson) {
  Trace trace;
  const ChromeTrace chrome(trace);
  EXPECT_TRUE(nlohmann::json::parse(chrome.to_json()).at("traceEvents").empty());
}

TEST(ChromeTrace, CountsWhatItCouldNotKeep) {
  Trace trace;
  const ChromeTrace chrome(trace, 2);
  for (int i = 0; i < 5; ++i) {
    trace.record(span("add", "cpu:0", i, i + 1));
  }
  EXPECT_EQ(chrome.span_count(), 2U);
  EXPECT_EQ(chrome.dropped_span_count(), 3U);
}

TEST(ChromeTrace, TurnsTheTraceOffWhenItDies) {
  Trace trace;
  {
    const ChromeTrace chrome(trace);
    EXPECT_TRUE(trace.is_on());
  }
  EXPECT_FALSE(trace.is_on());
}

TEST(ChromeTrace, WritesAFile) {
  const TemporaryFolder folder;
  Trace trace;
  const ChromeTrace chrome(trace);
  trace.record(span("add", "cpu:0", 0, 1));
  ASSERT_TRUE(chrome.write(folder.path() / "trace.json").has_value());
  EXPECT_EQ(read_file(folder.path() / "trace.json").value().size(), chrome.to_json().size());
}

}  // namespace
}  // namespace hearth
