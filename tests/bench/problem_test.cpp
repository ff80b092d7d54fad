// Problems as text, and the tables of suites.
#include "bench/kernels/problem.hpp"

#include "bench/kernels/suites.hpp"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using ::testing::HasSubstr;

TEST(Problem, AProductHasItsOperandsAndCost) {
  const std::vector<Problem> problems =
      parse_problems("matmul m=32 n=64 k=16 b=transposed").value();
  ASSERT_EQ(problems.size(), 1U);
  const Problem& problem = problems[0];
  EXPECT_EQ(problem.inputs[1].shape, Shape({16, 64}));
  EXPECT_TRUE(problem.inputs[1].is_transposed);
  EXPECT_EQ(problem.outputs[0].shape, Shape({32, 64}));
  EXPECT_EQ(problem.cost.flops, 2.0 * 32 * 64 * 16);
  EXPECT_EQ(problem.cost.bytes, 4.0 * (32 * 16 + 16 * 64 + 32 * 64));
}

TEST(Problem, ListsMakeEachCombination) {
  const std::vector<Problem> problems = parse_problems("matmul m=1..8*2 n=3,5 k=7").value();
  std::set<std::string> texts;
  for (const Problem& each : problems) {
    texts.insert(each.text);
  }
  EXPECT_EQ(texts.size(), 8U);
  EXPECT_TRUE(texts.contains("matmul m=8 n=5 k=7"));
}

TEST(Problem, UnknownWordsGetTheNearestOne) {
  EXPECT_THAT(parse_problems("matmull m=1").error().text, HasSubstr("did you mean 'matmul'?"));
  EXPECT_THAT(parse_problems("matmul m=1 n=1 k=1 bachs=2").error().text,
              HasSubstr("no option 'bachs'; did you mean 'batch'?"));
  EXPECT_THAT(parse_problems("matmul m=1 n=1").error().text, HasSubstr("matmul needs 'k': depth"));
  EXPECT_THAT(parse_problems("matmul m=1 n=1 k=x").error().text, HasSubstr("'x' is no number"));
  EXPECT_THAT(parse_problems("matmul m=1 n=1 k=1 dtype=f31").error().text,
              HasSubstr("no element type 'f31'; there are f32"));
  EXPECT_THAT(parse_problems("relu shape=4y4").error().text, HasSubstr("write 32x512x1024"));
}

TEST(Suites, HaveTheirRows) {
  EXPECT_EQ(product_rows().size(), 74U);
  EXPECT_EQ(convolution_rows().size(), 99U);
  EXPECT_GT(burn_rows().size(), 80U);
  EXPECT_GT(onnx_rows().size(), 200U);
}

TEST(Suites, EachRowIsOneProblemWithANameOfItsOwn) {
  for (const Suite& suite : suites()) {
    std::set<std::string_view> names;
    for (const SuiteRow& row : suite.rows) {
      const Result<std::vector<Problem>> problems = parse_problems(row.problem);
      ASSERT_TRUE(problems.has_value()) << row.problem << ": " << problems.error().text;
      ASSERT_EQ(problems.value().size(), 1U) << row.problem;
      EXPECT_GT(problems.value()[0].cost.bytes, 0) << row.problem;
      EXPECT_TRUE(names.insert(row.name).second) << suite.name << "/" << row.name;
    }
  }
}

TEST(Suites, AFilterSelectsBySuiteOrByPartOfARow) {
  EXPECT_EQ(select_rows("suite:matmul").value().size(), 74U);
  EXPECT_EQ(select_rows("conv").value().size(), 99U);
  EXPECT_EQ(select_rows("matmul/square-768").value().size(), 1U);
  EXPECT_GT(select_rows("groups=64").value().size(), 2U);
  EXPECT_THAT(select_rows("matmol").error().text, HasSubstr("did you mean 'matmul'?"));
}

}  // namespace
}  // namespace hearth::bench
