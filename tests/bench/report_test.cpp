// Reports: exit statuses, tables, files, and comparisons of two of them.
#include "bench/kernels/report.hpp"

#include "bench/kernels/compare_reports.hpp"
#include "bench/kernels/roofline.hpp"

#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using detail::RunTime;
using detail::Verdict;
using ::testing::HasSubstr;
using ::testing::Not;

Figure figure(double median_us, double spread = 0.01) {
  return {.lowest = RunTime(1e3 * median_us * (1 - spread)),
          .median = RunTime(1e3 * median_us),
          .from = RunTime(1e3 * median_us * (1 - spread)),
          .to = RunTime(1e3 * median_us * (1 + spread)),
          .count = 20};
}

Row row(Verdict verdict) {
  return {.suite = "matmul",
          .name = "a, \"b\"",
          .problem = "matmul m=1",
          .heat = "hot",
          .time = figure(100),
          .flops = 2e6,
          .bytes = 1e5,
          .verdict = verdict,
          .verdict_text = std::string(word(verdict))};
}

TEST(Report, TheWorstRowDecidesTheExitStatus) {
  const Row wrong{.verdict = Verdict::faster, .is_wrong = true};
  const Row refused{.verdict = Verdict::slower, .is_refused = true};
  EXPECT_EQ(exit_of({.rows = {row(Verdict::same), row(Verdict::faster), refused}}, true),
            Exit::fine);
  EXPECT_EQ(exit_of({.rows = {row(Verdict::same), row(Verdict::unclear)}}, true), Exit::unclear);
  EXPECT_EQ(exit_of({.rows = {row(Verdict::unclear), row(Verdict::slower)}}, true), Exit::slower);
  EXPECT_EQ(exit_of({.rows = {row(Verdict::slower), row(Verdict::same)}}, false), Exit::fine);
  EXPECT_EQ(exit_of({.rows = {row(Verdict::slower), wrong}}, true), Exit::wrong);
}

TEST(Report, AFileKeepsWhatTheTableShows) {
  Report report{.command = "run", .device = "cpu", .facts = {{"commit", "12"}}, .warnings = {"w"}};
  report.roofs = {.flops_per_second = 2e11, .bytes_per_second = 3e10};
  report.rows = {row(Verdict::unclear), row(Verdict::same)};
  report.rows[0].samples.resize(3);
  report.rows[1].is_wrong = true;
  const Report read = parse_report(to_json(report)).value();
  EXPECT_EQ(to_text(read, TableForm::text), to_text(report, TableForm::text));
  EXPECT_EQ(read.rows[0].verdict, Verdict::unclear);
  EXPECT_TRUE(read.rows[1].is_wrong);
  EXPECT_THAT(to_json(report), HasSubstr("\"invalid\""));  // why a sample does not count
}

// A busy machine leaves a few clean samples, which have no interval.
TEST(Report, AFigureOfFewSamplesCanBeRead) {
  const detail::Sample sample{.wall = std::chrono::milliseconds(2),
                              .cpu = std::chrono::milliseconds(2)};
  Report report{.rows = {row(Verdict::unclear)}};
  report.rows[0].time = figure_of(std::vector{sample, sample}, {});
  EXPECT_EQ(report.rows[0].time.count, 2);
  const Result<Report> read = parse_report(to_json(report));
  ASSERT_TRUE(read.has_value()) << read.error().text;
  EXPECT_EQ(read.value().rows[0].time.to, RunTime(0));
}

TEST(Report, OtherFilesAreRefused) {
  EXPECT_EQ(parse_report("{}").error().code, ErrorCode::bad_format);
  EXPECT_EQ(parse_report("no json").error().code, ErrorCode::bad_format);
  EXPECT_THAT(parse_report(R"({"schema": "hearth.bench/9"})").error().text,
              HasSubstr("hearth.bench/9"));
}

TEST(Report, CellsWithCommasAreQuoted) {
  EXPECT_THAT(to_text({.rows = {row(Verdict::same)}}, TableForm::csv),
              HasSubstr("\"matmul/a, \"\"b\"\"\","));
}

TEST(Report, ARateIsThatOfTheLowTime) {
  // 2e6 flops in 99 us.
  EXPECT_THAT(to_text({.rows = {row(Verdict::same)}}, TableForm::csv), HasSubstr(",20.2,"));
}

TEST(ComparedFigures, NeedTheWholeInterval) {
  EXPECT_EQ(judge_figures(figure(100), figure(90), 0.03).verdict, Verdict::faster);
  EXPECT_EQ(judge_figures(figure(90), figure(100), 0.03).verdict, Verdict::slower);
  EXPECT_EQ(judge_figures(figure(100, 0.005), figure(101, 0.005), 0.03).verdict, Verdict::same);
  EXPECT_EQ(judge_figures(figure(100, 0.1), figure(90, 0.1), 0.03).verdict, Verdict::unclear);
  Figure unknown = figure(50);
  unknown.count = 0;
  EXPECT_EQ(judge_figures(figure(100), unknown, 0.03).verdict, Verdict::unclear);
}

TEST(Roofline, ADotBelowSixtyPercentIsRed) {
  Report report{.device = "a <b>"};
  report.roofs = {.flops_per_second = 40e9, .bytes_per_second = 1e12};
  report.rows = {row(Verdict::same)};  // 20.2 of 40 GFLOP/s
  EXPECT_THAT(draw_roofline(report), HasSubstr("class='bad'"));
  EXPECT_THAT(draw_roofline(report), HasSubstr("a &lt;b&gt;"));
  report.roofs.flops_per_second = 25e9;
  EXPECT_THAT(draw_roofline(report), Not(HasSubstr("class='bad'")));
}

TEST(Time, HasFourDigits) {
  EXPECT_EQ(readable_time(RunTime(31.234)), "31.23 ns");
  EXPECT_EQ(readable_time(RunTime(5612340)), "5.612 ms");
  EXPECT_EQ(readable_time(RunTime(2e9)), "2 s");
}

}  // namespace
}  // namespace hearth::bench
