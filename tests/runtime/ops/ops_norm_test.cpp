// layer_norm and rms_norm against values computed by hand, in every float type, and their
// gradients.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>

#include "tests/runtime/gradient_check.hpp"
#include "tests/runtime/reference_test.hpp"
#include "tests/support/tolerance.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace hearth {
namespace {

using testing::check_gradients;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using NormTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

// Normalises rows of `width` in plain loops.
std::vector<double> by_hand(const std::vector<double>& x,
                            std::size_t width,
                            const std::vector<double>& weight,
                            const std::vector<double>& bias,
                            bool is_centred,
                            double epsilon) {
  std::vector<double> out(x.size());
  const auto count = static_cast<double>(width);
  for (std::size_t row = 0; row < x.size(); row += width) {
    double mean = 0;
    double squares = 0;
    for (std::size_t i = row; is_centred && i < row + width; ++i) {
      mean += x[i] / count;
    }
    for (std::size_t i = row; i < row + width; ++i) {
      squares += (x[i] - mean) * (x[i] - mean) / count;
    }
    for (std::size_t i = 0; i < width; ++i) {
      out[row + i] = (x[row + i] - mean) / std::sqrt(squares + epsilon) * weight[i] + bias[i];
    }
  }
  return out;
}

const std::vector<double> kX{1, 2, 4, -3, 0.5, 0.25, 0, 8, -1, 7, 7, 7.5};
const std::vector<double> kWeight{1, 0.5, -2, 3};
const std::vector<double> kBias{0, 1, -0.5, 0.25};

TEST_F(NormTest, GivesTheValuesOfPlainLoopsInEveryFloatType) {
  for (const DType dtype : kFloats) {
    const Tensor x = cast(f64(kX, {3, 4}), dtype);
    const Tensor weight = cast(f64(kWeight, {4}), dtype);
    const Tensor bias = cast(f64(kBias, {4}), dtype);
    const auto limit = testing::tolerance(testing::Precision::sum, dtype, 4, 4);
    const std::vector<double> layer = reals(layer_norm(x, weight, bias));
    const std::vector<double> rms = reals(rms_norm(x, weight, {.epsilon = 1e-3}));
    const std::vector<double> zeros_of(4, 0);
    const auto want_layer = by_hand(kX, 4, kWeight, kBias, true, 1e-5);
    const auto want_rms = by_hand(kX, 4, kWeight, zeros_of, false, 1e-3);
    EXPECT_EQ(layer_norm(x, weight, bias).dtype(), dtype);
    for (std::size_t i = 0; i < kX.size(); ++i) {
      EXPECT_TRUE(limit.accepts(layer[i], want_layer[i]))
          << name(dtype) << " " << i << ": " << layer[i] << ", not " << want_layer[i];
      EXPECT_TRUE(limit.accepts(rms[i], want_rms[i]))
          << name(dtype) << " " << i << ": " << rms[i] << ", not " << want_rms[i];
    }
  }
}

// In f16 the squares would be infinite, and the mean would have few digits.
TEST_F(NormTest, TakesItsStatisticsOfF16InF32) {
  const Tensor x = cast(f64({1000, 2000, 3000, 4000}, {1, 4}), DType::f16);
  const std::vector<double> want =
      by_hand({1000, 2000, 3000, 4000}, 4, {1, 1, 1, 1}, {0, 0, 0, 0}, true, 1e-5);
  const std::vector<double> got = reals(layer_norm(x));
  const auto limit = testing::tolerance(testing::Precision::function, DType::f16);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(limit.accepts(got[i], want[i])) << got[i] << ", not " << want[i];
  }
}

TEST_F(NormTest, TakesSeveralAxesTogether) {
  const Tensor x = counting({2, 2, 3});
  const Tensor flat = layer_norm(reshape(x, {2, 6}), {.axis_count = 1});
  const Tensor joint = layer_norm(x, {.axis_count = 2});
  EXPECT_EQ(joint.shape(), x.shape());
  const std::vector<double> want = reals(flat);
  const std::vector<double> got = reals(joint);
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i], want[i], 1e-12);
  }
  EXPECT_EQ(rms_norm(x, ones(device(), {2, 3}, DType::f64), {.axis_count = 2}).shape(), x.shape());
}

TEST_F(NormTest, OfNoElementsHasNone) {
  EXPECT_EQ(layer_norm(zeros(device(), {0, 3})).shape(), (Shape{0, 3}));
  EXPECT_EQ(rms_norm(zeros(device(), {3, 0})).shape(), (Shape{3, 0}));
}

TEST_F(NormTest, SaysWhatDoesNotFit) {
  const Tensor x = counting({2, 4});
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)layer_norm(x, counting({3})); }),
            "layer_norm: weight must be f64[4], is f64[3]: x f64[2, 4]");
  EXPECT_EQ(thrown_text<DtypeError>([&] {
              (void)layer_norm(x, counting({4}), f32({1, 1, 1, 1}, {4}));
            }),
            "layer_norm: bias must be f64[4], is f32[4]: x f64[2, 4]");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)rms_norm(x, {.axis_count = 3}); }),
            "rms_norm: there are no last 3 axes of [2, 4]");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)rms_norm(x, {.epsilon = -1}); }),
            "rms_norm: epsilon -1 is not 0 or more");
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)layer_norm(i32({1}, {1})); }),
              HasSubstr("layer_norm: does not take i32"));
}

TEST_F(NormTest, GradientsMatchDifferences) {
  HostRandom random(35);
  const auto x = random.signed_values({3, 4});
  const auto weight = random.signed_values({4});
  const auto bias = random.signed_values({4});
  check_gradients(device(),
                  [](const Tensors& in) { return square(layer_norm(in[0], in[1], in[2])); },
                  {x, weight, bias});
  check_gradients(
      device(), [](const Tensors& in) { return square(rms_norm(in[0], in[1])); }, {x, weight});
  check_gradients(device(),
                  [](const Tensors& in) { return exp(layer_norm(in[0], {.axis_count = 2})); },
                  {random.signed_values({2, 2, 3})});
}

TEST_F(NormTest, GroupsOfChannelsAreRowsOfTheirOwn) {
  const std::vector<double> rows =
      by_hand(kX, 6, std::vector<double>(6, 1), {0, 0, 0, 0, 0, 0}, true, 1e-5);
  for (const DType dtype : kFloats) {
    const Tensor x = cast(f64(kX, {1, 4, 3}), dtype);
    const std::vector<double> got = reals(group_norm(x, 2));
    const Tensor weight = cast(f64(kWeight, {4}), dtype);
    const Tensor bias = cast(f64(kBias, {4}), dtype);
    const std::vector<double> scaled = reals(group_norm(x, 2, weight, bias));
    const testing::Tolerance close = testing::tolerance(testing::Precision::sum, dtype, 12, 8);
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_TRUE(close.accepts(got[i], rows[i])) << name(dtype) << " " << got[i];
      EXPECT_TRUE(close.accepts(scaled[i], rows[i] * kWeight[i / 3] + kBias[i / 3]))
          << name(dtype) << " " << scaled[i];
    }
  }
}

TEST_F(NormTest, GroupNormHasGradientsAndRefusesOddGroups) {
  HostRandom random(44);
  check_gradients(
      device(),
      [](const Tensors& in) { return group_norm(in[0], 2, in[1], in[2]); },
      {random.distinct({2, 4, 3}), random.signed_values({4}), random.signed_values({4})});
  const Tensor x = counting({2, 4, 3});
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)group_norm(x, 3); }),
            "group_norm: 3 groups do not divide the channels of [2, 4, 3]");
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)group_norm(counting({4}), 2); }),
            "group_norm: needs [n, channels, ...], got [4]");
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)group_norm(x, 2, counting({3}), counting({4})); }),
            "group_norm: weight must be f64[4], is f64[3]: x f64[2, 4, 3]");
}

}  // namespace
}  // namespace hearth
