// conv1d, transposed convolutions and adaptive_avg_pool2d against plain loops, and their gradients.
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

struct Transposition {
  Shape x;
  std::int64_t out = 1;
  Size2d kernel = 1;
  ConvTranspose2dOptions options;
};

// Adds each element's multiple of the weight to its window.
std::vector<double> transposed(const Transposition& each,
                               const std::vector<double>& x,
                               const std::vector<double>& w,
                               const Shape& result) {
  const ConvTranspose2dOptions& o = each.options;
  const std::int64_t in = each.x[1] / o.groups;
  const std::int64_t out = each.out / o.groups;
  std::vector<double> sums(static_cast<std::size_t>(result.element_count()), 0);
  const auto at =
      [](const Shape& s, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
        return static_cast<std::size_t>(((a * s[1] + b) * s[2] + c) * s[3] + d);
      };
  const Shape weight{each.x[1], out, each.kernel[0], each.kernel[1]};
  for (std::int64_t i = 0; i < each.x.element_count(); ++i) {
    const std::int64_t column = i % each.x[3];
    const std::int64_t row = i / each.x[3] % each.x[2];
    const std::int64_t channel = i / (each.x[2] * each.x[3]) % each.x[1];
    const std::int64_t image = i / (each.x[1] * each.x[2] * each.x[3]);
    for (std::int64_t j = 0; j < out * each.kernel[0] * each.kernel[1]; ++j) {
      const std::int64_t dx = j % each.kernel[1];
      const std::int64_t dy = j / each.kernel[1] % each.kernel[0];
      const std::int64_t to = j / (each.kernel[0] * each.kernel[1]);
      const std::int64_t y = row * o.stride[0] - o.padding[0] + dy * o.dilation[0];
      const std::int64_t z = column * o.stride[1] - o.padding[1] + dx * o.dilation[1];
      if (y >= 0 && y < result[2] && z >= 0 && z < result[3]) {
        sums[at(result, image, channel / in * out + to, y, z)] +=
            x[static_cast<std::size_t>(i)] * w[at(weight, channel, to, dy, dx)];
      }
    }
  }
  return sums;
}

TEST_F(WindowTest, ConvTranspose2dAddsWindows) {
  HostRandom random(5);
  const std::vector<Transposition> all{
      {.x = {1, 1, 2, 3}, .out = 1, .kernel = 2, .options = {.stride = 2}},
      {.x = {2, 3, 4, 1},
       .out = 2,
       .kernel = {3, 2},
       .options = {.stride = {1, 3}, .padding = {2, 0}, .output_padding = {0, 2}}},
      {.x = {1, 4, 3, 5},
       .out = 6,
       .kernel = {1, 3},
       .options = {.stride = {3, 1}, .padding = {0, 2}, .dilation = {2, 3}, .groups = 2}},
      {.x = {1, 3, 1, 1}, .out = 3, .kernel = 4, .options = {.groups = 3}},
      {.x = {0, 2, 2, 2}, .out = 3, .kernel = 2, .options = {}},
  };
  for (const Transposition& each : all) {
    const Tensor x = random.signed_values(each.x).on(device());
    const Tensor weight =
        random
            .signed_values(
                {each.x[1], each.out / each.options.groups, each.kernel[0], each.kernel[1]})
            .on(device());
    const Tensor bias = random.signed_values({each.out}).on(device());
    const Tensor result = conv_transpose2d(x, weight, each.options);
    for (int axis = 0; axis < 2; ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      EXPECT_EQ(result.shape()[axis + 2],
                (each.x[axis + 2] - 1) * each.options.stride[i] - 2 * each.options.padding[i] +
                    each.options.dilation[i] * (each.kernel[i] - 1) +
                    each.options.output_padding[i] + 1);
    }
    const std::vector<double> wanted = transposed(each, reals(x), reals(weight), result.shape());
    EXPECT_THAT(reals(result), ::testing::Pointwise(::testing::DoubleNear(1e-9), wanted));
    EXPECT_EQ(reals(conv_transpose2d(x, weight, bias, each.options)),
              reals(result + reshape(bias, {each.out, 1, 1})));
  }
}

TEST_F(WindowTest, ConvTranspose1dActsOnRows) {
  HostRandom random(6);
  const Tensor x = random.signed_values({2, 3, 4}).on(device());
  const Tensor weight = random.signed_values({3, 2, 3}).on(device());
  const Tensor bias = random.signed_values({2}).on(device());
  const Tensor as_pictures = conv_transpose2d(
      unsqueeze(x, 2),
      unsqueeze(weight, 2),
      bias,
      {.stride = {1, 2}, .padding = {0, 1}, .output_padding = {0, 1}, .dilation = {1, 3}});
  EXPECT_EQ(reals(conv_transpose1d(
                x, weight, bias, {.stride = 2, .padding = 1, .output_padding = 1, .dilation = 3})),
            reals(as_pictures));
  EXPECT_EQ(conv_transpose1d(x, weight).shape(), (Shape{2, 2, 6}));
}

TEST_F(WindowTest, TransposedConvolutionsHaveGradients) {
  HostRandom random(13);
  check_gradients(
      device(),
      [](const Tensors& in) {
        return conv_transpose2d(
            in[0],
            in[1],
            in[2],
            {.stride = {2, 3}, .padding = {0, 1}, .output_padding = {1, 2}, .groups = 2});
      },
      {random.signed_values({2, 4, 2, 3}),
       random.signed_values({4, 3, 2, 3}),
       random.signed_values({6})});
  check_gradients(
      device(),
      [](const Tensors& in) { return conv_transpose1d(in[0], in[1], in[2], {.stride = 2}); },
      {random.signed_values({1, 2, 3}),
       random.signed_values({2, 1, 4}),
       random.signed_values({1})});
}

TEST_F(WindowTest, TransposedConvolutionsRefuseWhatDoesNotFit) {
  const Tensor x = counting({1, 2, 3, 3});
  const auto text = [&](const Tensor& weight, ConvTranspose2dOptions options) {
    return thrown_text<ArgumentError>([&] { (void)conv_transpose2d(x, weight, options); });
  };
  EXPECT_EQ(text(counting({3, 1, 2, 2}), {}),
            "conv_transpose2d: w needs 2 input channels, its first axis: x f64[1, 2, 3, 3], w "
            "f64[3, 1, 2, 2]");
  EXPECT_THAT(text(counting({2, 1, 2, 2}), {.output_padding = 1}),
              HasSubstr("output_padding from 0 to below the stride: stride [1, 1]"));
  EXPECT_THAT(text(counting({2, 1, 2, 2}), {.padding = 2}),
              HasSubstr("conv_transpose2d: the padding [2, 2] leaves nothing of axis 2"));
  EXPECT_THAT(text(counting({2, 1, 2, 2}), {.groups = 3}),
              HasSubstr("groups = 3 does not divide the channels"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)conv_transpose2d(counting({1, 2, 0, 3}), counting({2, 1, 2, 2}));
              }),
              HasSubstr("places on axis 2"));
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)conv_transpose1d(counting({1, 2, 3}), counting({3, 1, 2}));
            }),
            "conv_transpose1d: w needs 2 input channels, its first axis: x f64[1, 2, 3], w f64[3, "
            "1, 2]");
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
