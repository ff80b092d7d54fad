// Samples by pipes: the lines of both directions.
#include "bench/kernels/remote.hpp"

#include "bench/kernels/session.hpp"

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using ::testing::HasSubstr;

TEST(Remote, ASampleComesBackAsItWas) {
  const detail::Sample sample{.wall = std::chrono::nanoseconds(1234567),
                              .cpu = std::chrono::nanoseconds(1234000),
                              .run_count = 17,
                              .involuntary_switches = 3,
                              .pressure = 0.25F,
                              .steal = 0.5F,
                              .rotated_bytes = 1 << 20,
                              .source = detail::SampleSource::host_crew};
  const detail::Sample read = parse_sample_line(sample_line(sample)).value();
  EXPECT_EQ(sample_line(read), sample_line(sample));
  EXPECT_EQ(read.wall, sample.wall);
  EXPECT_EQ(read.source, sample.source);
  EXPECT_EQ(read.involuntary_switches, 3U);
}

TEST(Remote, OtherLinesAreErrors) {
  EXPECT_EQ(parse_sample_line("1 2").error().code, ErrorCode::bad_format);
  EXPECT_EQ(parse_sample_line("1 2 3 4 0 0 9 0").error().code, ErrorCode::bad_format);
  EXPECT_EQ(parse_sample_line("error it broke").error().text, "it broke");
}

TEST(Remote, ServesTheRowsThatAreAskedFor) {
  CommandLine line("run", "", with_common_options({}));
  ASSERT_FALSE(line.read({}));
  std::istringstream requests("1 3\n7 1\n0 2\n");
  std::ostringstream answers;
  const std::vector<SelectedRow> rows{{"s", {"a", "relu shape=8"}},
                                      {"s", {"b", "matmul m=4 n=4 k=4"}}};
  EXPECT_EQ(serve_samples(line, rows, requests, answers), 0);
  std::istringstream read(answers.str());
  std::vector<std::string> lines;
  for (std::string each; std::getline(read, each);) {
    lines.push_back(each);
  }
  ASSERT_EQ(lines.size(), 6U) << answers.str();
  EXPECT_EQ(lines[0] + "," + lines[1] + "," + lines[2], "row s/a,row s/b,ready");
  EXPECT_EQ(parse_sample_line(lines[3]).value().run_count, 3);
  EXPECT_EQ(parse_sample_line(lines[4]).error().text, "no such row");
  EXPECT_EQ(parse_sample_line(lines[5]).value().run_count, 2);
}

TEST(Remote, AProgramThatServesNothingIsAnError) {
  EXPECT_THAT(RemoteProgram::start("echo", {"hello"}).error().text, HasSubstr("serves no samples"));
  EXPECT_FALSE(RemoteProgram::start("/no/such/program", {}).has_value());
}

}  // namespace
}  // namespace hearth::bench
