// conv1d and adaptive_avg_pool2d against plain loops, and their gradients.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <array>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using WindowTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

TEST_F(WindowTest, Conv1dSlidesAlongARow) {
  const Tensor x = f64({1, 2, 3, 4, 5}, {1, 1, 5});
  const Tensor weight = f64({1, 0, -1}, {1, 1, 3});
  EXPECT_THAT(reals(conv1d(x, weight)), ElementsAre(-2, -2, -2));
  EXPECT_THAT(reals(conv1d(x, weight, {.padding = 1})), ElementsAre(-2, -2, -2, -2, 4));
  EXPECT_THAT(reals(conv1d(x, weight, {.stride = 2, .padding = 1})), ElementsAre(-2, -2, 4));
  EXPECT_THAT(reals(conv1d(x, weight, {.dilation = 2})), ElementsAre(-4));
  EXPECT_THAT(reals(conv1d(x, weight, f64({10}, {1}))), ElementsAre(8, 8, 8));
  const Tensor two = f64({1, 2, 3, 4}, {1, 2, 2});
  EXPECT_THAT(reals(conv1d(two, f64({10, 100}, {2, 1, 1}), {.groups = 2})),
              ElementsAre(10, 20, 300, 400));
}

TEST_F(WindowTest, OneNumberStandsForBothSides) {
  HostRandom random(3);
  const Tensor x = random.signed_values({1, 1, 5, 5}).on(device());
  const Tensor weight = random.signed_values({1, 1, 2, 2}).on(device());
  EXPECT_EQ(reals(conv2d(x, weight, {.stride = 2, .padding = 1})),
            reals(conv2d(x, weight, {.stride = {2, 2}, .padding = {1, 1}})));
  EXPECT_EQ(reals(max_pool2d(x, {.kernel = 3, .stride = 1})),
            reals(max_pool2d(x, {.kernel = {3, 3}, .stride = Size2d{1, 1}})));
  EXPECT_EQ(adaptive_avg_pool2d(x, 2).shape(), (Shape{1, 1, 2, 2}));
  EXPECT_EQ(avg_pool2d(x, {.kernel = {3, 5}}).shape(), (Shape{1, 1, 1, 1}));
}

TEST_F(WindowTest, Conv1dHasGradients) {
  HostRandom random(12);
  check_gradients(
      device(),
      [](const Tensors& in) { return conv1d(in[0], in[1], in[2], {.stride = 2, .padding = 1}); },
      {random.signed_values({2, 2, 5}),
       random.signed_values({3, 2, 3}),
       random.signed_values({3})});
}

TEST_F(WindowTest, Conv1dRefusesOtherRanks) {
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)conv1d(counting({2, 3}), counting({1, 1, 3}));
            }),
            "conv1d: x must have three axes, is f64[2, 3]");
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)conv1d(counting({1, 2, 3}), counting({1, 1, 3}));
              }),
              HasSubstr("conv1d: "));
}

// The error has conv1d's shapes, not those of the internal conv2d.
TEST_F(WindowTest, Conv1dTellsTheShapesThatItWasGiven) {
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)conv1d(counting({2, 3, 10}), counting({4, 5, 3}));
            }),
            "conv1d: w needs 3 input channels for groups = 1: x f64[2, 3, 10], w f64[4, 5, 3]");
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)conv1d(counting({2, 3, 2}), counting({4, 3, 3}), counting({4}));
            }),
            "conv1d: a window of 3 (dilation 1) is larger than the padded width, 2: "
            "x f64[2, 3, 2]");
}

TEST_F(WindowTest, AdaptivePoolingCoversThePictureForAnySize) {
  HostRandom random(5);
  for (const auto& [height, width, rows, columns] : {std::array{4, 6, 2, 3},
                                                     std::array{5, 7, 3, 2},
                                                     std::array{3, 3, 1, 1},
                                                     std::array{2, 3, 4, 5},
                                                     std::array{5, 4, 5, 1}}) {
    const auto x = random.signed_values({2, 2, height, width});
    const Tensor pooled = adaptive_avg_pool2d(x.on(device()), {rows, columns});
    ASSERT_EQ(pooled.shape(), (Shape{2, 2, rows, columns}));
    const std::vector<double> got = reals(pooled);
    std::size_t at = 0;
    for (int picture = 0; picture < 4; ++picture) {
      for (int row = 0; row < rows; ++row) {
        for (int column = 0; column < columns; ++column, ++at) {
          double total = 0;
          int count = 0;
          for (int i = row * height / rows; i * rows < (row + 1) * height; ++i) {
            for (int j = column * width / columns; j * columns < (column + 1) * width; ++j) {
              total += x.values[static_cast<std::size_t>((picture * height + i) * width + j)];
              ++count;
            }
          }
          EXPECT_NEAR(got[at], total / count, 1e-12) << height << "x" << width << " at " << at;
        }
      }
    }
    check_gradients(device(),
                    [out = Shape{rows, columns}](const Tensors& in) {
                      return adaptive_avg_pool2d(in[0], {out[0], out[1]});
                    },
                    {x});
  }
}

TEST_F(WindowTest, AdaptivePoolingKeepsTheTypeAndRefusesWhatIsNoPicture) {
  const Tensor narrow = cast(counting({1, 1, 3, 3}), DType::bf16);
  EXPECT_EQ(adaptive_avg_pool2d(narrow, {2, 2}).dtype(), DType::bf16);
  EXPECT_THAT(reals(adaptive_avg_pool2d(narrow, {2, 2})), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)adaptive_avg_pool2d(counting({3}), {1, 1});
              }),
              HasSubstr("adaptive_avg_pool2d: needs images"));
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)adaptive_avg_pool2d(narrow, {0, 1});
              }),
              HasSubstr("the size 0x1 is not 1 or more"));
}

}  // namespace
}  // namespace hearth
