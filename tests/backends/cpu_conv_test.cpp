#include "cpu_contraction.hpp"

#include <hearth/streams/op_attributes.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace hearth::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

struct Conv {
  const char* text;
  Shape x;
  Shape w;
  ConvAttributes attributes;
  DType dtype = DType::f32;

  [[nodiscard]] Shape y() const {
    const auto places = [&](int axis) {
      const auto i = static_cast<std::size_t>(axis - 2);
      return (x[axis] + 2 * attributes.padding[i] - attributes.dilation[i] * (w[axis] - 1) - 1) /
                 attributes.stride[i] +
             1;
    };
    return {x[0], w[0], places(2), places(3)};
  }
};

std::vector<Conv> convolutions() {
  std::vector<Conv> list = {
      {"one input channel", {2, 1, 28, 28}, {32, 1, 3, 3}, {.padding = {1, 1}}},
      {"many channels", {2, 20, 14, 14}, {40, 20, 3, 3}, {.padding = {1, 1}}},
      {"strides and odd sizes",
       {3, 5, 13, 11},
       {7, 5, 3, 3},
       {.stride = {2, 3}, .padding = {1, 0}}},
      {"stride beyond the kernel", {1, 3, 17, 19}, {4, 3, 2, 2}, {.stride = {3, 4}}},
      {"dilation", {2, 9, 18, 16}, {3, 9, 3, 2}, {.padding = {2, 1}, .dilation = {3, 2}}},
      {"stride and dilation",
       {1, 8, 20, 21},
       {17, 8, 3, 3},
       {.stride = {2, 2}, .padding = {2, 3}, .dilation = {2, 3}}},
      {"groups", {2, 6, 9, 17}, {10, 3, 3, 3}, {.stride = {1, 2}, .padding = {1, 1}, .groups = 2}},
      {"depthwise", {2, 5, 12, 40}, {5, 1, 3, 3}, {.padding = {1, 1}, .groups = 5}},
      {"depthwise, stride 2",
       {2, 6, 29, 37},
       {6, 1, 3, 3},
       {.stride = {2, 2}, .padding = {1, 1}, .groups = 6}},
      {"depthwise, stride 3",
       {1, 4, 20, 31},
       {4, 1, 3, 3},
       {.stride = {3, 3}, .padding = {1, 1}, .groups = 4}},
      {"depthwise 5x5", {2, 4, 13, 40}, {4, 1, 5, 5}, {.padding = {2, 2}, .groups = 4}},
      {"depthwise 5x5, stride 2",
       {2, 3, 28, 28},
       {3, 1, 5, 5},
       {.stride = {2, 2}, .padding = {2, 2}, .groups = 3}},
      {"depthwise, dilation",
       {1, 4, 15, 21},
       {4, 1, 3, 3},
       {.stride = {2, 1}, .padding = {2, 3}, .dilation = {2, 3}, .groups = 4}},
      {"two channels of one",
       {2, 5, 9, 19},
       {10, 1, 3, 3},
       {.stride = {1, 2}, .padding = {1, 1}, .groups = 5}},
      {"four channels of one",
       {1, 3, 9, 19},
       {12, 1, 3, 5},
       {.stride = {2, 2}, .padding = {1, 2}, .groups = 3}},
      {"one channel of two", {2, 6, 9, 9}, {3, 2, 3, 3}, {.padding = {1, 1}, .groups = 3}},
      {"depthwise, small planes", {3, 70, 7, 7}, {70, 1, 3, 3}, {.padding = {1, 1}, .groups = 70}},
      {"depthwise, tiny planes",
       {2, 33, 1, 2},
       {33, 1, 3, 3},
       {.stride = {2, 2}, .padding = {1, 1}, .groups = 33}},
      {"depthwise, padding beyond the window",
       {1, 3, 5, 6},
       {3, 1, 2, 3},
       {.padding = {4, 5}, .groups = 3}},
      {"depthwise, long rows", {1, 2, 9, 700}, {2, 1, 3, 3}, {.padding = {1, 1}, .groups = 2}},
      {"depthwise, large planes",
       {1, 2, 150, 90},
       {2, 1, 3, 3},
       {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}},
      {"depthwise 1x7", {2, 4, 8, 20}, {4, 1, 1, 7}, {.padding = {0, 3}, .groups = 4}},
      {"one by one, depthwise", {2, 5, 6, 7}, {5, 1, 1, 1}, {.groups = 5}},
      {"one by one, stride 2", {2, 17, 15, 14}, {33, 17, 1, 1}, {.stride = {2, 2}}},
      {"one by one, rows in pairs", {1, 9, 20, 24}, {20, 9, 1, 1}, {}},
      {"one by one, result as large",
       {2, 9, 3, 3},
       {20, 9, 1, 1},
       {.stride = {2, 2}, .padding = {1, 1}}},
      {"one by one, padding", {1, 9, 5, 6}, {20, 9, 1, 1}, {.stride = {1, 2}, .padding = {1, 2}}},
      {"one by one", {2, 17, 7, 7}, {33, 17, 1, 1}, {}},
      {"wider than one vector, in bands", {1, 3, 40, 75}, {20, 3, 5, 5}, {.padding = {2, 2}}},
      {"a window as large as the input", {3, 4, 5, 6}, {6, 4, 5, 6}, {}},
      {"sums of several blocks", {1, 60, 6, 6}, {20, 60, 3, 3}, {.padding = {1, 1}}},
  };
  for (const DType dtype : {DType::f64, DType::f16, DType::bf16}) {
    list.push_back(
        {"types", {2, 9, 9, 10}, {18, 9, 3, 3}, {.stride = {1, 2}, .padding = {1, 1}}, dtype});
    list.push_back(
        {"types, depthwise", {2, 9, 9, 37}, {9, 1, 3, 3}, {.padding = {1, 1}, .groups = 9}, dtype});
    list.push_back({"types, depthwise, strides",
                    {2, 9, 10, 37},
                    {9, 1, 5, 5},
                    {.stride = {2, 2}, .padding = {2, 2}, .groups = 9},
                    dtype});
  }
  return list;
}

std::string label(const Conv& conv) {
  return std::string(conv.text) + " " + describe(conv.dtype, conv.x);
}

SmallCall forward(const Conv& conv,
                  const SmallTensor& x,
                  const SmallTensor& w,
                  const SmallTensor& y) {
  return SmallCall(OpKind::conv2d, {x.view(), w.view()}, {y.view()}).with(conv.attributes);
}

TEST(CpuConv, ForwardAgreesWithTheOracle) {
  DevicePerIsa devices;
  for (const Conv& conv : convolutions()) {
    const SmallTensor x = random_tensor(conv.dtype, conv.x, 1);
    const SmallTensor w = random_tensor(conv.dtype, conv.w, 2);
    const SmallTensor bias = random_tensor(conv.dtype, {conv.w[0]}, 3);
    const SmallTensor y(conv.dtype, conv.y());
    const double length = static_cast<double>(conv.w[1] * conv.w[2] * conv.w[3]);
    expect_like_the_oracle(devices, forward(conv, x, w, y), y, length, label(conv));
    expect_like_the_oracle(devices,
                           SmallCall(OpKind::conv2d, {x.view(), w.view(), bias.view()}, {y.view()})
                               .with(conv.attributes),
                           y,
                           length + 1,
                           label(conv) + " with bias");
  }
}

TEST(CpuConv, GradientOfTheInputAgreesWithTheOracle) {
  DevicePerIsa devices;
  for (const Conv& conv : convolutions()) {
    const SmallTensor grad = random_tensor(conv.dtype, conv.y(), 4);
    const SmallTensor w = random_tensor(conv.dtype, conv.w, 5);
    const SmallTensor dx(conv.dtype, conv.x);
    const SmallCall call =
        SmallCall(OpKind::conv2d_backward_input, {grad.view(), w.view()}, {dx.view()})
            .with(conv.attributes);
    expect_like_the_oracle(
        devices, call, dx, static_cast<double>(conv.w[0] * conv.w[2] * conv.w[3]), label(conv));
  }
}

TEST(CpuConv, GradientOfTheWeightsAgreesWithTheOracle) {
  DevicePerIsa devices;
  for (const Conv& conv : convolutions()) {
    const SmallTensor x = random_tensor(conv.dtype, conv.x, 6);
    const SmallTensor grad = random_tensor(conv.dtype, conv.y(), 7);
    const SmallTensor dw(conv.dtype, conv.w);
    const SmallCall call =
        SmallCall(OpKind::conv2d_backward_weight, {x.view(), grad.view()}, {dw.view()})
            .with(conv.attributes);
    expect_like_the_oracle(devices,
                           call,
                           dw,
                           static_cast<double>(conv.y()[0] * conv.y()[2] * conv.y()[3]),
                           label(conv));
  }
}

void expect_equal_bits_on_all_cores(const Conv& conv) {
  const SmallTensor x = random_tensor(DType::f32, conv.x, 8);
  const SmallTensor w = random_tensor(DType::f32, conv.w, 9);
  const SmallTensor grad = random_tensor(DType::f32, conv.y(), 10);
  const SmallTensor y(DType::f32, conv.y());
  const SmallTensor dx(DType::f32, conv.x);
  const SmallTensor dw(DType::f32, conv.w);
  const SmallCall calls[] = {
      forward(conv, x, w, y),
      SmallCall(OpKind::conv2d_backward_input, {grad.view(), w.view()}, {dx.view()})
          .with(conv.attributes),
      SmallCall(OpKind::conv2d_backward_weight, {x.view(), grad.view()}, {dw.view()})
          .with(conv.attributes)};
  const SmallTensor* const outputs[] = {&y, &dx, &dw};
  for (std::size_t i = 0; i < std::size(calls); ++i) {
    const std::vector<double> alone = computed(serial_device(), calls[i], *outputs[i]);
    EXPECT_EQ(computed({.cores = available_cores()}, calls[i], *outputs[i]), alone);
  }
}

TEST(CpuConv, TheBitsDoNotDependOnTheNumberOfCores) {
  expect_equal_bits_on_all_cores({"", {24, 16, 14, 14}, {64, 16, 3, 3}, {.padding = {1, 1}}});
  expect_equal_bits_on_all_cores(
      {"", {8, 80, 28, 28}, {80, 1, 3, 3}, {.padding = {1, 1}, .groups = 80}});
  expect_equal_bits_on_all_cores(
      {"", {2, 6, 150, 150}, {6, 1, 5, 5}, {.stride = {2, 2}, .padding = {2, 2}, .groups = 6}});
}

// Vectors along a row read more than a window covers.
TEST(CpuConv, AnInfinityReachesOnlyTheSumsThatReadIt) {
  DevicePerIsa devices;
  for (const std::int64_t width : {7, 20, 41}) {
    for (const std::int64_t stride : {1, 2}) {
      const Conv conv{"",
                      {1, 3, 9, width},
                      {3, 1, 3, 3},
                      {.stride = {stride, stride}, .padding = {1, 1}, .groups = 3}};
      SmallTensor x = random_tensor(DType::f32, conv.x, 13);
      for (const std::int64_t place : {std::int64_t{0}, 4 * width, 5 * width - 1}) {
        x.view().as<float>()[place] = std::numeric_limits<float>::infinity();
      }
      const SmallTensor w = random_tensor(DType::f32, conv.w, 14);
      const SmallTensor grad = random_tensor(DType::f32, conv.y(), 15);
      const SmallTensor y(DType::f32, conv.y());
      const SmallTensor dw(DType::f32, conv.w);
      const SmallCall to_weight =
          SmallCall(OpKind::conv2d_backward_weight, {x.view(), grad.view()}, {dw.view()})
              .with(conv.attributes);
      const auto expect_finite_alike = [&](const SmallCall& call, const SmallTensor& output) {
        reference::evaluate(call.call()).value();
        const std::vector<double> expected = output.values();
        for (cpu::CpuBackend* const device : devices.all()) {
          const std::vector<double> result = computed(*device, call, output);
          for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(std::isfinite(result[i]), std::isfinite(expected[i]))
                << "width " << width << ", stride " << stride << ", element " << i;
          }
        }
      };
      expect_finite_alike(forward(conv, x, w, y), y);
      expect_finite_alike(to_weight, dw);
    }
  }
}

// A lane of a vector adds at most 512 products before they are added in f64.
TEST(CpuConv, ALongGradientOfADepthwiseWeightStaysAccurate) {
  const Shape shape{2, 1, 400, 700};
  const auto count = static_cast<std::size_t>(shape.element_count());
  const SmallTensor x(DType::f32, shape, std::vector<double>(count, 0.1));
  const SmallTensor grad(DType::f32, shape, std::vector<double>(count, 1.0));
  const SmallTensor dw(DType::f32, {1, 1, 3, 3});
  const SmallCall call =
      SmallCall(OpKind::conv2d_backward_weight, {x.view(), grad.view()}, {dw.view()})
          .with(ConvAttributes{.padding = {1, 1}});
  DevicePerIsa devices;
  for (cpu::CpuBackend* const device : devices.all()) {
    const std::vector<double> sums = computed(*device, call, dw);
    for (const int tap : {0, 4, 5}) {
      const double rows = tap < 3 ? 399 : 400;
      const double columns = tap % 3 == 1 ? 700 : 699;
      const double expected = 2 * rows * columns * static_cast<double>(0.1F);
      EXPECT_NEAR(sums[static_cast<std::size_t>(tap)] / expected, 1.0, 516 * 0x1p-24) << tap;
    }
  }
}

TEST(CpuConv, AnImageIsTheSameInEveryBatch) {
  const Conv many{"", {5, 12, 10, 10}, {20, 12, 3, 3}, {.padding = {1, 1}}};
  const Conv one{"", {1, 12, 10, 10}, many.w, many.attributes};
  const SmallTensor x = random_tensor(DType::f32, many.x, 11);
  const SmallTensor w = random_tensor(DType::f32, many.w, 12);
  const SmallTensor y_many(DType::f32, many.y());
  const SmallTensor y_one(DType::f32, one.y());
  const detail::Layout first(one.x);
  const std::vector<double> all = computed(serial_device(), forward(many, x, w, y_many), y_many);
  const SmallCall single =
      SmallCall(OpKind::conv2d, {x.view(first, 0), w.view()}, {y_one.view()}).with(one.attributes);
  EXPECT_EQ(computed(serial_device(), single, y_one),
            std::vector<double>(all.begin(), all.begin() + one.y().element_count()));
}

TEST(CpuConv, WithoutImagesTheGradientOfTheWeightsIsZero) {
  const SmallTensor x(DType::f32, {0, 2, 5, 5});
  const SmallTensor grad(DType::f32, {0, 3, 3, 3});
  const SmallTensor dw(DType::f32, {3, 2, 3, 3}, std::vector<double>(54, 7.0));
  const SmallCall call =
      SmallCall(OpKind::conv2d_backward_weight, {x.view(), grad.view()}, {dw.view()})
          .with(ConvAttributes{});
  EXPECT_THAT(computed(serial_device(), call, dw), Each(0.0));
}

TEST(CpuConv, InputsThatNoWindowReachesGetNoGradient) {
  const SmallTensor grad(DType::f32, {1, 1, 1, 2}, {5, 6});
  const SmallTensor w(DType::f32, {1, 1, 1, 1}, {2});
  const SmallTensor dx(DType::f32, {1, 1, 2, 5}, std::vector<double>(10, 7.0));
  const SmallCall call =
      SmallCall(OpKind::conv2d_backward_input, {grad.view(), w.view()}, {dx.view()})
          .with(ConvAttributes{.stride = {3, 3}});
  EXPECT_THAT(computed(serial_device(), call, dx), ElementsAre(10, 0, 0, 12, 0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace hearth::testing
