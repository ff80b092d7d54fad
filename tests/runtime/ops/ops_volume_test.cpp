// conv3d, pools of volumes and pools of rows against plain loops, and their gradients.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::HostTensor;
using ::testing::Pointwise;
using testing::thrown_text;
using VolumeTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;
using Place = std::array<std::int64_t, 3>;

std::int64_t windows_along(std::int64_t size,
                           std::int64_t kernel,
                           std::int64_t stride,
                           std::int64_t padding,
                           std::int64_t dilation) {
  return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

// Calls fn(place of the input, number of the tap) for each tap of the window, also those outside.
void visit_taps(const Place& window,
                const Size3d& kernel,
                const Size3d& stride,
                const Size3d& padding,
                const Size3d& dilation,
                const std::function<void(const Place&, std::int64_t)>& fn) {
  std::int64_t number = 0;
  for (std::int64_t d = 0; d < kernel[0]; ++d) {
    for (std::int64_t h = 0; h < kernel[1]; ++h) {
      for (std::int64_t w = 0; w < kernel[2]; ++w, ++number) {
        fn({window[0] * stride[0] - padding[0] + d * dilation[0],
            window[1] * stride[1] - padding[1] + h * dilation[1],
            window[2] * stride[2] - padding[2] + w * dilation[2]},
           number);
      }
    }
  }
}

bool lies_in(const Place& place, const Shape& shape) {
  return place[0] >= 0 && place[1] >= 0 && place[2] >= 0 && place[0] < shape[2] &&
         place[1] < shape[3] && place[2] < shape[4];
}

double value_at(const HostTensor& x, std::int64_t plane, const Place& place) {
  const Shape& s = x.shape;
  return x.values[static_cast<std::size_t>(((plane * s[2] + place[0]) * s[3] + place[1]) * s[4] +
                                           place[2])];
}

struct Convolution {
  Shape x;
  Shape weight;
  Conv3dOptions options;
};

std::vector<double> convolved(const Convolution& each,
                              const HostTensor& x,
                              const HostTensor& w,
                              const Shape& result) {
  std::vector<double> sums;
  const std::int64_t in = each.weight[1];
  const std::int64_t out = each.weight[0] / each.options.groups;
  const std::int64_t taps = each.weight[2] * each.weight[3] * each.weight[4];
  const Size3d kernel(each.weight[2], each.weight[3], each.weight[4]);
  for (std::int64_t i = 0; i < result.element_count(); ++i) {
    const Place window{
        i / (result[3] * result[4]) % result[2], i / result[4] % result[3], i % result[4]};
    const std::int64_t to = i / (result[2] * result[3] * result[4]) % result[1];
    const std::int64_t n = i / (result[1] * result[2] * result[3] * result[4]);
    double sum = 0;
    for (std::int64_t channel = 0; channel < in; ++channel) {
      const std::int64_t plane = n * each.x[1] + to / out * in + channel;
      visit_taps(window,
                 kernel,
                 each.options.stride,
                 each.options.padding,
                 each.options.dilation,
                 [&](const Place& place, std::int64_t tap) {
                   if (lies_in(place, each.x)) {
                     sum += value_at(x, plane, place) *
                            w.values[static_cast<std::size_t>((to * in + channel) * taps + tap)];
                   }
                 });
    }
    sums.push_back(sum);
  }
  return sums;
}

TEST_F(VolumeTest, Conv3dMatchesPlainLoops) {
  HostRandom random(81);
  const std::vector<Convolution> all{
      {{1, 1, 3, 4, 5}, {1, 1, 2, 2, 2}, {}},
      {{2, 3, 5, 4, 6}, {4, 3, 3, 2, 3}, {.stride = {2, 1, 3}, .padding = {1, 0, 2}}},
      {{1, 4, 6, 5, 5}, {6, 2, 2, 3, 1}, {.dilation = {3, 2, 1}, .groups = 2}},
      {{2, 3, 2, 3, 3}, {3, 1, 1, 3, 3}, {.padding = 1, .groups = 3}},
      {{1, 2, 1, 1, 1}, {2, 2, 3, 3, 3}, {.padding = 1}},
      {{0, 2, 3, 3, 3}, {2, 2, 2, 2, 2}, {}},
  };
  for (const Convolution& each : all) {
    const HostTensor x = random.uniform(each.x, -1, 1);
    const HostTensor w = random.uniform(each.weight, -1, 1);
    const Tensor bias = random.uniform({each.weight[0]}, -1, 1).on(device());
    const Tensor result = conv3d(x.on(device()), w.on(device()), each.options);
    for (int axis = 2; axis < 5; ++axis) {
      const auto i = static_cast<std::size_t>(axis) - 2;
      EXPECT_EQ(result.shape()[axis],
                windows_along(each.x[axis],
                              each.weight[axis],
                              each.options.stride[i],
                              each.options.padding[i],
                              each.options.dilation[i]));
    }
    EXPECT_THAT(reals(result), Pointwise(DoubleNear(1e-11), convolved(each, x, w, result.shape())));
    EXPECT_THAT(
        reals(conv3d(x.on(device()), w.on(device()), bias, each.options)),
        Pointwise(DoubleNear(1e-11), reals(result + reshape(bias, {each.weight[0], 1, 1, 1}))));
  }
  const Tensor turned = permute(counting({2, 2, 3, 4, 5}), {1, 0, 4, 2, 3});
  const Tensor w = random.uniform({2, 2, 2, 2, 2}, -1, 1).on(device());
  EXPECT_EQ(reals(conv3d(turned, w)), reals(conv3d(contiguous(turned), w)));
  EXPECT_EQ(conv3d(cast(turned, DType::bf16), cast(w, DType::bf16)).dtype(), DType::bf16);
}

TEST_F(VolumeTest, Conv3dHasGradients) {
  HostRandom random(82);
  check_gradients(
      device(),
      [](const Tensors& in) {
        return conv3d(
            in[0], in[1], in[2], {.stride = {2, 1, 1}, .padding = {1, 0, 1}, .groups = 2});
      },
      {random.uniform({1, 2, 3, 3, 2}, -1, 1),
       random.uniform({4, 1, 2, 2, 2}, -1, 1),
       random.uniform({4}, -1, 1)});
}

TEST_F(VolumeTest, Conv3dRefusesWhatDoesNotFit) {
  const Tensor x = counting({1, 2, 3, 3, 3});
  const auto text = [&](const Tensor& weight, const Conv3dOptions& options) {
    return thrown_text<ArgumentError>([&] { (void)conv3d(x, weight, options); });
  };
  EXPECT_EQ(text(counting({1, 2, 2, 2}), {}),
            "conv3d: needs rank 5: x f64[1, 2, 3, 3, 3], w f64[1, 2, 2, 2]");
  EXPECT_THAT(text(counting({1, 3, 2, 2, 2}), {}),
              HasSubstr("conv3d: w needs 2 input channels for groups = 1"));
  EXPECT_THAT(text(counting({1, 2, 2, 2, 2}), {.groups = 2}),
              HasSubstr("groups = 2 does not divide the channels"));
  EXPECT_THAT(text(counting({1, 2, 2, 2, 2}), {.stride = {1, 0, 1}}),
              HasSubstr("stride [1, 0, 1]"));
  EXPECT_THAT(text(counting({1, 2, 2, 5, 2}), {}),
              HasSubstr("a window of 5 (dilation 1) is larger than the padded height, 3"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)conv3d(x, counting({1, 2, 2, 2, 2}), counting({2}));
              }),
              HasSubstr("bias must be [1]"));
  EXPECT_THROW((void)conv3d(x, cast(counting({1, 2, 2, 2, 2}), DType::f32)), DtypeError);
}

std::vector<double> pooled(const HostTensor& x,
                           const Pool3dOptions& o,
                           const Shape& result,
                           bool is_mean) {
  std::vector<double> values;
  const Size3d stride = o.stride.value_or(o.kernel);
  for (std::int64_t i = 0; i < result.element_count(); ++i) {
    const Place window{
        i / (result[3] * result[4]) % result[2], i / result[4] % result[3], i % result[4]};
    const std::int64_t plane = i / (result[2] * result[3] * result[4]);
    double best = -std::numeric_limits<double>::infinity();
    double sum = 0;
    double count = 0;
    visit_taps(window, o.kernel, stride, o.padding, 1, [&](const Place& place, std::int64_t) {
      if (lies_in(place, x.shape)) {
        best = std::max(best, value_at(x, plane, place));
        sum += value_at(x, plane, place);
        ++count;
      } else if (o.count_include_pad) {
        ++count;
      }
    });
    values.push_back(is_mean ? sum / count : best);
  }
  return values;
}

TEST_F(VolumeTest, PoolsOfVolumesMatchPlainLoops) {
  HostRandom random(83);
  const std::vector<Pool3dOptions> all{
      {},
      {.kernel = {3, 2, 1}, .stride = Size3d{1, 2, 1}, .padding = {1, 1, 0}},
      {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false},
      {.kernel = {1, 4, 5}},
  };
  for (const Pool3dOptions& options : all) {
    const HostTensor x = random.distinct({2, 2, 4, 5, 5});
    const Tensor largest = max_pool3d(x.on(device()), options);
    EXPECT_EQ(reals(largest), pooled(x, options, largest.shape(), false));
    const Tensor means = avg_pool3d(x.on(device()), options);
    EXPECT_EQ(means.shape(), largest.shape());
    EXPECT_THAT(reals(means),
                Pointwise(DoubleNear(1e-12), pooled(x, options, means.shape(), true)));
  }
  const HostTensor small = random.distinct({1, 2, 3, 4, 3});
  for (const Pool3dOptions& options : all) {
    if (options.kernel[2] <= 3) {
      check_gradients(
          device(), [&](const Tensors& in) { return max_pool3d(in[0], options); }, {small});
      check_gradients(
          device(), [&](const Tensors& in) { return avg_pool3d(in[0], options); }, {small});
    }
  }
  EXPECT_EQ(avg_pool3d(cast(counting({1, 1, 2, 2, 2}), DType::f16)).dtype(), DType::f16);
  EXPECT_EQ(max_pool3d(counting({0, 2, 2, 2, 2})).shape(), (Shape{0, 2, 1, 1, 1}));
}

// Equal largest elements give the gradient to the first of them, as in planes.
TEST_F(VolumeTest, TheFirstOfEqualElementsTakesTheGradient) {
  const Tensor x = zeros(device(), {1, 1, 2, 2, 2}, DType::f64);
  const Tensor slope = grad([](const Tensors& in) { return sum(max_pool3d(in[0])); }, {x})[0];
  EXPECT_THAT(reals(slope), ElementsAre(1, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(VolumeTest, PoolsOfVolumesRefuseWhatDoesNotFit) {
  const Tensor x = counting({1, 2, 3, 3, 3});
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)max_pool3d(counting({2, 3, 3, 3}));
            }),
            "max_pool3d: needs rank 5: x f64[2, 3, 3, 3]");
  EXPECT_THAT(thrown_text<ArgumentError>([&] {
                (void)avg_pool3d(x, {.kernel = 2, .padding = {0, 2, 0}});
              }),
              HasSubstr("avg_pool3d: kernel and stride must be positive and padding at most half "
                        "the kernel: kernel [2, 2, 2], stride [2, 2, 2], padding [0, 2, 0]"));
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)max_pool3d(x, {.kernel = 4}); }),
              HasSubstr("a window of 4 (dilation 1) is larger than the padded depth, 3"));
  EXPECT_THAT(thrown_text<ShapeError>([&] {
                (void)max_pool3d(counting({1, 2, 3, 0, 3}));
              }),
              HasSubstr("axis 3 has no elements"));
  EXPECT_THROW((void)avg_pool3d(cast(x, DType::i32)), DtypeError);
}

TEST_F(VolumeTest, PoolsOfRowsMatchPlainLoops) {
  HostRandom random(84);
  const std::vector<Pool1dOptions> all{
      {},
      {.kernel = 3, .stride = 1, .padding = 1},
      {.kernel = 4, .stride = 3, .padding = 2, .count_include_pad = false}};
  for (const Pool1dOptions& options : all) {
    const HostTensor x = random.distinct({2, 3, 9});
    const Pool3dOptions in_space{.kernel = {1, 1, options.kernel},
                                 .stride = Size3d{1, 1, options.stride.value_or(options.kernel)},
                                 .padding = {0, 0, options.padding},
                                 .count_include_pad = options.count_include_pad};
    const HostTensor volume{{2, 3, 1, 1, 9}, x.values};
    const Tensor largest = max_pool1d(x.on(device()), options);
    const Shape result{2, 3, 1, 1, largest.shape()[2]};
    EXPECT_EQ(reals(largest), pooled(volume, in_space, result, false));
    EXPECT_THAT(reals(avg_pool1d(x.on(device()), options)),
                Pointwise(DoubleNear(1e-12), pooled(volume, in_space, result, true)));
    check_gradients(device(), [&](const Tensors& in) { return max_pool1d(in[0], options); }, {x});
    check_gradients(device(), [&](const Tensors& in) { return avg_pool1d(in[0], options); }, {x});
  }
  const Tensor x = counting({1, 2, 5});
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)max_pool1d(counting({2, 5}));
            }),
            "max_pool1d: x must have three axes, is f64[2, 5]");
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)avg_pool1d(x, {.kernel = 6}); }),
            "avg_pool1d: a window of 6 (dilation 1) is larger than the padded width, 5: x f64[1, "
            "2, 5]");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)avg_pool1d(x, {.kernel = 2, .padding = 2}); }),
            "avg_pool1d: kernel and stride must be positive and padding at most half the kernel: "
            "kernel 2, stride 2, padding 2");
}

}  // namespace
}  // namespace hearth
