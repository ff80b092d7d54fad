// flip and roll against plain loops, on views, empty tensors and all types.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <limits>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using RollTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

TEST_F(RollTest, FlipReversesAxes) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(reals(flip(x, 1)), ElementsAre(2, 1, 0, 5, 4, 3));
  EXPECT_THAT(reals(flip(x, -2)), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(reals(flip(x, {0, 1})), ElementsAre(5, 4, 3, 2, 1, 0));
  EXPECT_EQ(reals(flip(x)), reals(flip(x, {0, 1})));
  EXPECT_THAT(reals(flip(transpose(x), 0)), ElementsAre(2, 5, 1, 4, 0, 3));
  EXPECT_THAT(integers(flip(booleans({1, 0, 0}, {3}))), ElementsAre(0, 0, 1));
  EXPECT_EQ(flip(counting({0, 2}), {0, 1}).shape(), (Shape{0, 2}));
  EXPECT_THAT(reals(flip(f64({7}, {}))), ElementsAre(7));
  check_gradients(device(),
                  [](const Tensors& in) {
                    return flip(in[0], {0, 2});
                  },
                  {HostRandom(51).uniform({2, 3, 2}, -1, 1)});
}

TEST_F(RollTest, RollMovesElementsAround) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(reals(roll(x, 1, 1)), ElementsAre(2, 0, 1, 5, 3, 4));
  EXPECT_THAT(reals(roll(x, -1, 1)), ElementsAre(1, 2, 0, 4, 5, 3));
  EXPECT_THAT(reals(roll(x, 3, 0)), ElementsAre(3, 4, 5, 0, 1, 2));
  EXPECT_THAT(reals(roll(x, 2)), ElementsAre(4, 5, 0, 1, 2, 3));
  EXPECT_THAT(reals(roll(x, {1, -4}, {0, 1})), ElementsAre(4, 5, 3, 1, 2, 0));
  EXPECT_THAT(reals(roll(x, {1, 1}, {1, -1})), ElementsAre(1, 2, 0, 4, 5, 3));
  EXPECT_EQ(reals(roll(x, 6, 1)), reals(x));
  EXPECT_EQ(reals(roll(x, std::numeric_limits<std::int64_t>::min(), 0)), reals(x));
  EXPECT_THAT(reals(roll(transpose(x), 1, 0)), ElementsAre(2, 5, 0, 3, 1, 4));
  EXPECT_THAT(reals(roll(transpose(x), 1)), ElementsAre(5, 0, 3, 1, 4, 2));
  EXPECT_THAT(integers(roll(i32({1, 2, 3}, {3}), -1, 0)), ElementsAre(2, 3, 1));
  EXPECT_EQ(roll(counting({0, 2}), 1, 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(roll(counting({0, 2}), 1).shape(), (Shape{0, 2}));
  check_gradients(device(),
                  [](const Tensors& in) {
                    return roll(in[0], {1, 2}, {0, 2});
                  },
                  {HostRandom(52).uniform({2, 2, 3}, -1, 1)});
}

TEST_F(RollTest, RefuseWhatNamesNoAxis) {
  const Tensor x = counting({2, 3});
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)flip(x, 2); }),
              HasSubstr("flip: axis 2 is outside a tensor of rank 2"));
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)flip(x, {1, -1});
            }),
            "flip: axis 1 is named twice");
  EXPECT_THAT(thrown_text<ArgumentError>([&] { (void)roll(x, 1, -3); }),
              HasSubstr("roll: axis -3 is outside a tensor of rank 2"));
  EXPECT_EQ(thrown_text<ArgumentError>([&] {
              (void)roll(x, {1, 2, 3}, {0, 1});
            }),
            "roll: 3 shifts do not fit 2 axes: give one for each");
}

}  // namespace
}  // namespace hearth
