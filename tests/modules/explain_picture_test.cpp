// The pictures of hearth-bench explain: no element leaves them or covers another one.
#include <algorithm>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/explain_picture.hpp"
#include "bench/picture_text.hpp"

namespace hearth::bench {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Line {
  double x = 0;
  double y = 0;
  double size = 0;
  std::string words;
};

std::vector<Line> lines_of(const std::string& svg) {
  static const std::regex kText(
      "<text x='([0-9.]+)' y='([0-9.]+)' font-size='([0-9]+)'[^>]*>([^<]*)</text>");
  std::vector<Line> lines;
  for (std::sregex_iterator each(svg.begin(), svg.end(), kText), end; each != end; ++each) {
    lines.push_back({.x = std::stod((*each)[1]),
                     .y = std::stod((*each)[2]),
                     .size = std::stod((*each)[3]),
                     .words = (*each)[4]});
  }
  return lines;
}

double size_of(const std::string& svg, const char* side) {
  std::smatch found;
  std::regex_search(svg, found, std::regex(std::string("<svg [^>]*") + side + "='([0-9]+)'"));
  return std::stod(found[1]);
}

ExplainedKernel kernel_of_many_words() {
  ExplainedKernel kernel{.name = "mul", .op_count = 60, .bytes_read = 1 << 20};
  for (int i = 0; i < 40; ++i) {
    kernel.name += "+a_long_name_of_an_op";
  }
  kernel.module_path = "model.layers." + std::string(150, 'x') + ".inner";
  kernel.location = {"/a/folder/with/a/name/that/is/long/program.cpp", 12};
  kernel.boundary = "the next op, " + std::string(300, 'y') + ", is a kernel of its own <here>";
  return kernel;
}

TEST(ExplainPicture, HasTheSumsAndWhereEachKernelComesFrom) {
  Explanation said{.device = "cpu:0", .launches = 1, .unneeded_ops = 2};
  said.kernels.push_back({.name = "mul+add",
                          .op_count = 2,
                          .bytes_read = 48,
                          .module_path = "model.inner",
                          .location = {"net.cpp", 7},
                          .boundary = "the next op, sum, is a stranger"});
  const std::string svg = draw_explanation(said, "a program");
  EXPECT_THAT(svg,
              AllOf(HasSubstr("1 launch, 3 launches saved"),
                    HasSubstr("2 ops more eliminated"),
                    HasSubstr("mul+add (2 ops), reads 48 B"),
                    HasSubstr("in model.inner at net.cpp:7"),
                    HasSubstr("ends: the next op, sum, is a stranger")));
}

TEST(ExplainPicture, KeepsLongWordsInside) {
  Explanation said{.device = "cpu:0"};
  said.kernels.assign(1, kernel_of_many_words());
  said.kernels.push_back({.name = "exp"});
  said.kernels.push_back(kernel_of_many_words());
  const std::string svg = draw_explanation(said, std::string(200, 't'));
  const double width = size_of(svg, "width");
  const double height = size_of(svg, "height");
  std::vector<Line> lines = lines_of(svg);
  ASSERT_GT(lines.size(), 20U);
  for (const Line& line : lines) {
    EXPECT_LE(line.x + static_cast<double>(line.words.size()) * line.size * 0.5, width)
        << line.words;
    EXPECT_LE(line.y, height) << line.words;
  }
  std::ranges::sort(lines, {}, &Line::y);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const bool are_side_by_side = lines[i].y == lines[i - 1].y && lines[i].x != lines[i - 1].x;
    EXPECT_TRUE(are_side_by_side || lines[i].y - lines[i - 1].y >= lines[i].size)
        << lines[i - 1].words << " and " << lines[i].words;
  }
}

TEST(ExplainPicture, DrawsKernelsThatAreAlikeOnce) {
  Explanation said{.device = "cpu:0", .launches = 1};
  said.kernels.assign(200, {.name = "adam_step", .bytes_read = 1024});
  const std::string svg = draw_explanation(said, "steps");
  EXPECT_THAT(svg, HasSubstr("200 times adam_step, each reads 1.0 KiB"));
  EXPECT_LT(size_of(svg, "height"), 200);
}

TEST(ExplainPicture, HasTheTimesWhereTheyWereMeasured) {
  Explanation said{.device = "cpu:0", .launches = 3};
  said.kernels = {{.name = "sum", .bytes_read = 64}, {.name = "exp", .bytes_read = 64}};
  EXPECT_THAT(draw_explanation(said, "a program"), Not(HasSubstr("took")));
  said.kernels.push_back(said.kernels.back());
  const std::string svg =
      draw_explanation(said, "a program", std::vector<double>{2e-3, 3e-6, 5e-6});
  EXPECT_THAT(svg,
              AllOf(HasSubstr("1. sum, took 2.00 ms, reads 64 B"),
                    HasSubstr("2. 2 times exp, each took 4.0 us, reads 64 B"),
                    HasSubstr("kernels took 2.01 ms"),
                    HasSubstr(">time<")));
}

// 400 distinct kernels; the costliest one is number 301.
TEST(ExplainPicture, IsNoHigherThanAPageWhateverTheNumberOfKernels) {
  Explanation said{.device = "cpu:0"};
  std::vector<double> seconds;
  for (int i = 0; i < 400; ++i) {
    ExplainedKernel kernel = kernel_of_many_words();
    kernel.name = "op_" + std::to_string(i) + "_" + kernel.name;
    kernel.bytes_read = i;
    said.kernels.push_back(kernel);
    seconds.push_back(i == 300 ? 1.0 : 1e-6 * i);
  }
  for (const bool has_time : {false, true}) {
    const std::string svg = draw_explanation(
        said, "many", has_time ? std::span<const double>(seconds) : std::span<const double>());
    EXPECT_LE(size_of(svg, "height"), kMostPictureHeight);
    EXPECT_GT(size_of(svg, "height"), kMostPictureHeight / 2);
    EXPECT_THAT(svg, HasSubstr("op_399_"));
    EXPECT_EQ(svg.find("op_300_") != std::string::npos, has_time);
    EXPECT_THAT(svg, HasSubstr("1 to 3"));
    EXPECT_THAT(svg, HasSubstr(" smaller kernels, "));
  }
}

TEST(RepeatedKernels, AreTheShortestRowThatComesAgain) {
  const ExplainedKernel a{.name = "a"};
  const ExplainedKernel b{.name = "b"};
  const auto said = [](const std::vector<ExplainedKernel>& kernels) {
    std::string text;
    for (const detail::RepeatedKernels& some : detail::repeated(kernels)) {
      text += std::to_string(some.first) + "+" + std::to_string(some.length) + "x" +
              std::to_string(some.times) + " ";
    }
    return text;
  };
  EXPECT_EQ(said({}), "");
  EXPECT_EQ(said({a, b}), "0+1x1 1+1x1 ");
  EXPECT_EQ(said({a, a, a, b}), "0+1x3 3+1x1 ");
  EXPECT_EQ(said({a, b, a, b, a, b, b}), "0+2x3 6+1x1 ");
  EXPECT_EQ(said({b, a, a, b, a}), "0+1x1 1+1x2 3+1x1 4+1x1 ");
}

TEST(WrappedText, BreaksAtBlanksThenBehindSignsThenAnywhere) {
  EXPECT_THAT(wrapped("one two three", 10, 48), ElementsAre("one two", "three"));
  EXPECT_THAT(wrapped("mul+add+exp", 10, 48), ElementsAre("mul+add+", "exp"));
  EXPECT_THAT(wrapped("aaaaaaaaaaaa", 10, 48), ElementsAre("aaaaaaaa", "aaaa"));
  EXPECT_THAT(wrapped("", 10, 48), ElementsAre());
  EXPECT_THAT(wrapped("aaaaaaa\xC3\xA4 b", 10, 48), ElementsAre("aaaaaaa", "\xC3\xA4 b"));
}

}  // namespace
}  // namespace hearth::bench
