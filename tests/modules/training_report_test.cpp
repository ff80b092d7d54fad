// A run's output: CSV, report, live line.
#include <hearth/modules/training_report.hpp>

#include <hearth/modules/training_console.hpp>

#include "modules/report/line_chart.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace std::chrono_literals;  // NOLINT: a test's own words
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TrainingHistory make_history() {
  TrainingHistory history{
      .metrics = {{.name = "accuracy", .in_percent = true}, {.name = "R², \"adjusted\""}},
      .epochs = {},
      .steps = {},
      .rates = {}};
  history.epochs.push_back({.epoch = 1,
                            .train_loss = 0.1,
                            .validation_loss = 0.2,
                            .metrics = {0.5, std::nan("")},
                            .first_learning_rate = 1e-3,
                            .last_learning_rate = 5e-4,
                            .duration = 2500ms,
                            .sample_count = 100});
  history.epochs.push_back({.epoch = 2,
                            .train_loss = 1.0 / 3,
                            .metrics = {0.75, 0.25},
                            .first_learning_rate = 1e-4,
                            .last_learning_rate = 1e-4});
  history.steps.add(0.5);
  history.rates.add(1e-3);
  return history;
}

TEST(TrainingHistory, CsvHasALineAnEpochAndAllDigits) {
  EXPECT_EQ(
      csv_of(make_history()),
      "epoch,train_loss,validation_loss,accuracy,\"R², \"\"adjusted\"\"\",first_learning_rate,"
      "last_learning_rate,seconds,samples_per_s\n"
      "1,0.1,0.2,0.5,nan,0.001,0.0005,2.500,40.0\n"
      "2,0.3333333333333333,,0.75,0.25,0.0001,0.0001,0.000,0.0\n");
}

TEST(StepCurve, JoinsNeighboursWhenThereAreTooMany) {
  StepCurve curve;
  const auto count = static_cast<int>(StepCurve::kMaxPoints);
  for (int i = 0; i < count; ++i) {
    curve.add(i);
  }
  EXPECT_EQ(curve.steps_per_point(), 2);
  ASSERT_EQ(curve.points().size(), StepCurve::kMaxPoints / 2);
  EXPECT_EQ(curve.points()[0], 0.5);
  EXPECT_EQ(curve.points().back(), count - 1.5);
  curve.add(10);
  EXPECT_EQ(curve.points().size(), StepCurve::kMaxPoints / 2);
  EXPECT_EQ(curve.open_count(), 1);
  curve.add(20);
  EXPECT_EQ(curve.points().back(), 15);
}

TEST(LineChart, TicksAreRoundAndEncloseTheValues) {
  using detail::round_ticks;
  EXPECT_THAT(round_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  for (const auto& [low, high] :
       std::vector<std::pair<double, double>>{{0.013, 0.58},
                                              {-3, 1e6},
                                              {1e-9, 3e-9},
                                              {5, 5},
                                              {0, 0},
                                              {-2, -2},
                                              {0.001, std::nextafter(0.001, 1)},
                                              {0.001, 0.0010000000000000004545},
                                              {-1, std::nextafter(-1, 0)},
                                              {-1e308, 1e308},
                                              {5e-324, 1e-323}}) {
    const std::vector<double> ticks = round_ticks(low, high, 5);
    ASSERT_GE(ticks.size(), 2U);
    EXPECT_LE(ticks.size(), 12U);
    EXPECT_LE(ticks.front(), low + 1e-15);
    EXPECT_GE(ticks.back(), high - 1e-15);
  }
}

TEST(LineChart, NumbersHaveTheDigitsThatTellThemApart) {
  using detail::readable_number;
  struct Row {
    double value;
    double step;
    const char* text;
  };
  for (const auto& [value, step, text] : std::vector<Row>{{0, 0.5, "0"},
                                                          {1e-17, 0.1, "0"},
                                                          {0.1 + 0.2, 0.1, "0.3"},
                                                          {1, 0.5, "1.0"},
                                                          {0.25, 0.05, "0.25"},
                                                          {0.0005, 0.0005, "0.0005"},
                                                          {0.001, 0.0005, "0.0010"},
                                                          {40, 20, "40"},
                                                          {12000, 2000, "12,000"},
                                                          {-1234567, 1, "-1,234,567"},
                                                          {2e-5, 1e-5, "2e-5"},
                                                          {1.5e-5, 5e-6, "1.5e-5"},
                                                          {1.0002e-3, 1e-7, "1.0002e-3"},
                                                          {5e10, 1e10, "5e10"},
                                                          {0.003, 0, "0.003"},
                                                          {0.00297469, 0, "0.002975"},
                                                          {12345.678, 0, "12,346"},
                                                          {1e-5, 0, "1e-5"},
                                                          {97.256, 0.01, "97.26"}}) {
    EXPECT_EQ(readable_number(value, step), text);
  }
}

TEST(TrainingReport, ARateThatDoesNotChangeIsOneNumber) {
  TrainingHistory history = make_history();
  history.epochs[0].first_learning_rate = 0.003;
  history.epochs[0].last_learning_rate = std::nextafter(0.003, 1);
  history.epochs[1].first_learning_rate = 0.003;
  history.epochs[1].last_learning_rate = 0.00299;
  const std::string html = html_of({.history = history});
  EXPECT_THAT(html, HasSubstr("<td>0.003</td>"));
  EXPECT_THAT(html, HasSubstr("<td>0.003 to 0.00299</td>"));
}

TEST(LineChart, WhatIsNotFiniteLeavesAGap) {
  const std::string svg = detail::svg_of(
      {.title = "Loss", .axis = "epoch", .lines = {{"a", {1, 2, std::nan(""), 4, HUGE_VAL, 3}}}});
  const std::size_t path = svg.find("<path class=\"line0\" d=\"M");
  ASSERT_NE(path, std::string::npos);
  const std::string drawn = svg.substr(path, svg.find("/>", path) - path);
  EXPECT_EQ(std::count(drawn.begin(), drawn.end(), 'M'), 3);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

// A reader for the XML of the report: elements, attributes with double quotes, entities. Returns
// the first fault, or an empty text.
std::string fault_of(std::string_view text) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '&') {
      const std::size_t end = text.find(';', at);
      const std::string_view entity = text.substr(at, end - at);
      if (entity != "&amp" && entity != "&lt" && entity != "&gt" && entity != "&quot") {
        return "an entity that there is not at " + std::to_string(at);
      }
      at = end + 1;
      continue;
    }
    if (text[at] == '>') {
      return "a stray > at " + std::to_string(at);
    }
    if (text[at] != '<') {
      ++at;
      continue;
    }
    const std::size_t end = text.find('>', at);
    if (end == std::string_view::npos) {
      return "a tag without an end";
    }
    std::string_view tag = text.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag.starts_with("!DOCTYPE")) {
      continue;
    }
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || tag.find('<') != tag.npos) {
      return "a broken tag: " + std::string(tag);
    }
    if (tag.starts_with('/')) {
      if (open.empty() || open.back() != tag.substr(1)) {
        return "an end that begins nowhere: " + std::string(tag);
      }
      open.pop_back();
    } else if (!tag.ends_with('/')) {
      open.emplace_back(tag.substr(0, tag.find_first_of(" \n")));
    }
    if (!open.empty() && open.back() == "style") {  // its content is no XML
      at = text.find("</style>", at);
    }
  }
  return open.empty() ? "" : "not closed: " + open.back();
}

TEST(TrainingReport, IsWellFormedAndNeedsNothingElse) {
  ConfusionMatrix confusion(2);
  confusion.add(0, 1, 12);
  const std::string html = html_of({.title = "Digits <1 & \"2\">",
                                    .facts = {{"data", "a<b>&c"}},
                                    .history = make_history(),
                                    .best_epoch = 2,
                                    .confusion = confusion,
                                    .model = "inner.weight [1, 2] <f32>\n"});
  EXPECT_EQ(fault_of(html), "");
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, EndsWith("</html>\n"));
  EXPECT_THAT(html, HasSubstr("Digits &lt;1 &amp; &quot;2&quot;&gt;"));
  EXPECT_THAT(html, HasSubstr("<tr class=\"best\"><td>2</td><td>0.3333</td><td></td>"));
  EXPECT_THAT(html, HasSubstr("<td>0.001 to 0.0005</td><td>2.5</td><td>40</td>"));
  EXPECT_THAT(html, HasSubstr("<td>0.0001</td><td>0.000</td>")) << "the same in all steps";
  EXPECT_THAT(html, HasSubstr("Learning rate per step"));
  EXPECT_THAT(html, HasSubstr("<td>12</td>"));
  EXPECT_THAT(html, HasSubstr("<h2>Confusion matrix</h2>"));
  EXPECT_THAT(html,
              HasSubstr("<th rowspan=\"2\">actual class</th><th class=\"top\" colspan=\"2\">"
                        "predicted class</th>"));
  EXPECT_THAT(html, HasSubstr("<tr><th>0</th><td class=\"hit\">0</td><td>12</td>"))
      << "a row for each actual class";
  EXPECT_THAT(html, HasSubstr("inner.weight [1, 2] &lt;f32&gt;"));
  for (const char* reference : {"src=", "href=", "url(", "@import", "<script", "<link"}) {
    EXPECT_THAT(html, Not(HasSubstr(reference)));
  }
}

TEST(TrainingReport, OfARunWithoutEpochsIsWellFormedToo) {
  const std::string html = html_of({});
  EXPECT_EQ(fault_of(html), "");
  EXPECT_THAT(html, Not(HasSubstr("<svg"))) << "no curves of nothing";
  EXPECT_THAT(html, HasSubstr("No epoch has finished."));
}

/// The output of a console.
std::string written(const ConsoleStyle style, const std::function<void(TrainingConsole&)>& use) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  {
    TrainingConsole console({.style = style, .out = file.get()}, 3);
    use(console);
  }
  std::rewind(file.get());
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

void use(TrainingConsole& console) {
  const TrainingHistory history = make_history();
  console.show({.epoch = 1, .batch = 5, .batch_count = 10}, 0.25, 1000);
  console.show({.epoch = 1, .batch = 10, .batch_count = 10}, 0.125, 1000);
  console.end_epoch(history, history.epochs[0]);
}

TEST(TrainingConsole, OutsideOfATerminalThereIsALineAnEpoch) {
  const std::string line =
      "epoch 1/3  loss 0.1000  validation loss 0.2000  accuracy 50.00 %  R², \"adjusted\" nan  40 "
      "samples/s\n";
  EXPECT_EQ(written(ConsoleStyle::plain, use), line);
  EXPECT_EQ(written(ConsoleStyle::automatic, use), line) << "a file is no terminal";
  EXPECT_EQ(written(ConsoleStyle::silent, use), "");
}

TEST(TrainingConsole, TheEnvironmentSaysWhatIsShownWhereTheProgramDoesNot) {
  const auto set = [](const char* value) {
    return setenv("HEARTH_CONSOLE", value, 1);  // NOLINT(concurrency-mt-unsafe): one thread
  };
  ASSERT_EQ(set("silent"), 0);
  EXPECT_EQ(written(ConsoleStyle::automatic, use), "");
  EXPECT_NE(written(ConsoleStyle::plain, use), "") << "the program comes first";
  ASSERT_EQ(set("loud"), 0);
  try {
    static_cast<void>(written(ConsoleStyle::automatic, use));
    ADD_FAILURE() << "took a style that there is not";
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("HEARTH_CONSOLE=loud"));
    EXPECT_THAT(error.what(), HasSubstr("dashboard"));
  }
  ASSERT_EQ(unsetenv("HEARTH_CONSOLE"), 0);  // NOLINT(concurrency-mt-unsafe): one thread
}

TEST(TrainingConsole, OnATerminalALineIsDrawnAnewAndNeverWraps) {
  const std::string text = written(ConsoleStyle::live, use);
  EXPECT_THAT(text,
              StartsWith("epoch 1/3 [##########..........] 5/10  loss 0.2500  1000 samples/s\r"));
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kepoch 1/3 [####################] 10/10"));
  EXPECT_THAT(text, HasSubstr("\r\x1b[Kepoch 1/3  loss 0.1000"));
  EXPECT_THAT(text, EndsWith("samples/s\n"));
}

TEST(TrainingConsole, AnInterruptedEpochSaysHowFarItCame) {
  const TrainingHistory history = make_history();
  EXPECT_THAT(written(ConsoleStyle::plain,
                      [&](TrainingConsole& console) {
                        console.end_epoch(
                            history, history.epochs[1], "interrupted after 3 of 9 batches, saved:");
                      }),
              StartsWith("epoch 2/3 interrupted after 3 of 9 batches, saved:  loss 0.3333"));
}

// /dev/full fails like a full disk. The run goes on.
TEST(TrainingConsole, ALineThatCannotBeWrittenIsReportedOnce) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  ::testing::internal::CaptureStderr();
  {
    TrainingConsole console({.style = ConsoleStyle::plain, .out = full}, 3);
    console.print_line("one");
    console.print_line("two");
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "hearth: the lines of a training cannot be written: No space left on device; it goes "
            "on without them\n");
  std::fclose(full);
}

}  // namespace
}  // namespace hearth
