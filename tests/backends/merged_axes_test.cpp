// MergedAxes: the merged axes of several operands, and the layout of each operand over them.
#include <hearth/backends/merged_axes.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth::detail {
namespace {

using Axes = MergedAxes<2>;

std::vector<std::int64_t> sizes(const Axes& axes) {
  return {axes.size.begin(), axes.size.begin() + axes.rank};
}

Axes axes_of(const Shape& shape, const Strides& first, const Strides& second) {
  const std::array strides{first, second};
  return {shape, strides};
}

TEST(MergedAxes, MergesNeighboursThatFitForEachOperand) {
  // The second operand has gaps behind its rows of 4.
  const Axes axes = axes_of({2, 3, 4}, {12, 4, 1}, {24, 8, 1});
  EXPECT_EQ(sizes(axes), (std::vector<std::int64_t>{6, 4}));
  EXPECT_EQ(axes.stride[0][0], 4);
  EXPECT_EQ(axes.stride[1][0], 8);
  EXPECT_EQ(axes.inner_size(), 4);
  EXPECT_TRUE(axes.is_linear(0));
  EXPECT_FALSE(axes.is_linear(1));
}

TEST(MergedAxes, LeavesOutAxesOfSizeOne) {
  const Axes axes = axes_of({2, 1, 3}, {3, 77, 1}, {3, 0, 1});
  EXPECT_EQ(sizes(axes), (std::vector<std::int64_t>{6}));
}

TEST(MergedAxes, HasAnAxisForOneElement) {
  const Axes axes = axes_of({1, 1}, {5, 5}, {0, 0});
  EXPECT_EQ(sizes(axes), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(axes.inner_stride(0), 1);
}

TEST(MergedAxes, KeepsTheAxesBeforeTheFirstApart) {
  Axes axes;
  axes.operand_count = 1;
  axes.append(2, [](std::size_t) { return 12; });
  axes.append(
      3, [](std::size_t) { return 4; }, axes.rank);
  axes.append(
      4, [](std::size_t) { return 1; }, 1);
  EXPECT_EQ(sizes(axes), (std::vector<std::int64_t>{2, 12}));
}

TEST(MergedAxes, RepeatsAnElementAlongAxesOfStrideZero) {
  const Axes axes = axes_of({2, 3}, {0, 1}, {0, 0});
  EXPECT_TRUE(axes.repeats(0, 0, 1));
  EXPECT_FALSE(axes.repeats(0));
  EXPECT_TRUE(axes.repeats(1));
}

TEST(MergedAxes, ReachesDownAlongNegativeStrides) {
  const Axes axes = axes_of({2, 3}, {-10, 2}, {3, 1});
  EXPECT_EQ(axes.reach_down(0), 10);
  EXPECT_EQ(axes.reach(0), 14);
  EXPECT_EQ(axes.reach_from_first(0), 10);
  EXPECT_EQ(axes.reach_down(1), 0);
  EXPECT_EQ(axes.reach_from_first(1), 5);
}

}  // namespace
}  // namespace hearth::detail
