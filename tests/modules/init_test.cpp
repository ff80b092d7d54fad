#include <hearth/modules/init.hpp>

#include "test_runtime.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

TEST(Init, FansOfAConvolutionCountItsWindow) {
  EXPECT_EQ(fan_in({8, 3, 5, 7}), 3 * 35);
  EXPECT_EQ(fan_out({8, 3, 5, 7}), 8 * 35);
}

TEST(Init, KaimingNormalHasAVarianceOfTwoOverItsInputs) {
  TestRuntime test;
  Generator generator(5);
  const std::vector<float> values =
      kaiming_normal(test.cpu, {200, 100}, generator).to_vector<float>();
  double squares = 0;
  for (const float value : values) {
    squares += double{value} * double{value};
  }
  // 0.02 expected, deviation 0.0002.
  EXPECT_NEAR(squares / static_cast<double>(values.size()), 0.02, 0.001);
}

TEST(Init, XavierUniformReachesTheRootOfSixOverBothFans) {
  TestRuntime test;
  Generator generator(5);
  const std::vector<float> values =
      xavier_uniform(test.cpu, {50, 100}, generator).to_vector<float>();
  const auto [low, high] = std::ranges::minmax(values);
  EXPECT_GE(low, -0.2F);
  EXPECT_LT(high, 0.2F);
  EXPECT_LT(low, -0.195F);
  EXPECT_GT(high, 0.195F);
}

}  // namespace
}  // namespace hearth
