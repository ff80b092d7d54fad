// Gradients where values, or incoming gradients, are not finite: one table of decisions for all
// elementwise ops and losses (streams/kernel/numerics.md), fused and one by one. A value that is
// not part of a sum does not enter it, even if it is not finite.
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/loss_sum.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/tested_devices.hpp"

namespace hearth {
namespace {

using Tensors = std::vector<Tensor>;
using Numbers = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Decision {
  const char* name;
  std::function<Tensor(const Tensor&)> fn;
  Numbers at;
  Numbers slopes;  ///< Gradients of the sum of the results.
};

Tensor like(const Tensor& x, Numbers values) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return Tensor::from(x.device(), std::vector<float>(values.begin(), values.end()), shape)
      .to(x.dtype());
}

const std::vector<Decision>& functions() {
  static const std::vector<Decision> kAll{
      {"relu",
       [](const Tensor& x) { return relu(x); },
       {kNan, kInf, -kInf, 0, -0.0, 2},
       {1, 1, 0, 0, 0, 1}},
      {"leaky_relu",
       [](const Tensor& x) { return leaky_relu(x, 0.25); },
       {kNan, kInf, -kInf, 0},
       {0.25, 1, 0.25, 0.25}},
      {"abs", [](const Tensor& x) { return abs(x); }, {kNan, kInf, -kInf, 0}, {0, 1, -1, 0}},
      {"abs of an infinite slope",
       [](const Tensor& x) { return abs(x) * kInf; },
       {2, -2, 0},
       {kInf, -kInf, 0}},
      {"clamp",
       [](const Tensor& x) { return clamp(x, -1, 1); },
       {kNan, kInf, -kInf, -1, 1, 0.5},
       {0, 0, 0, 1, 1, 1}},
      {"leaky_relu of an infinite slope",
       [](const Tensor& x) { return leaky_relu(x, 0.25) * kInf; },
       {1, -1},
       {kInf, kInf}},
      {"clamp of an infinite slope",
       [](const Tensor& x) { return clamp(x, -1, 1) * kInf; },
       {0.5, 2},
       {kInf, 0}},
      {"clamp below",
       [](const Tensor& x) { return clamp(x, -1); },
       {kNan, kInf, -kInf, -1},
       {0, 1, 0, 1}},
      {"maximum",
       [](const Tensor& x) {
         return maximum(x, like(x, {0, kNan, 0, 0, 0, kInf}));
       },
       {kNan, 1, kInf, -kInf, 0, kInf},
       {1, 1, 1, 0, 0.5, 0.5}},
      {"minimum",
       [](const Tensor& x) {
         return minimum(x, like(x, {0, kNan, 0, 0, 0, -kInf}));
       },
       {kNan, 1, kInf, -kInf, 0, -kInf},
       {1, 1, 0, 1, 0.5, 0.5}},
      {"maximum with a number",
       [](const Tensor& x) { return maximum(x, 0); },
       {kNan, kInf, -kInf, 0},
       {1, 1, 0, 0.5}},
      {"maximum of an infinite slope",
       [](const Tensor& x) { return maximum(x, 0) * kInf; },
       {1, -1},
       {kInf, 0}},
      {"where of an infinite slope",
       [](const Tensor& x) { return where(greater(x, 0), x, 0) * kInf; },
       {1, -1},
       {kInf, 0}},
      {"sqrt", [](const Tensor& x) { return sqrt(x); }, {0, kInf, -1, kNan}, {kInf, 0, kNan, kNan}},
      {"rsqrt", [](const Tensor& x) { return rsqrt(x); }, {0, kInf, kNan}, {-kInf, 0, kNan}},
      {"log", [](const Tensor& x) { return log(x); }, {0, kInf, -2, kNan}, {kInf, 0, -0.5, kNan}},
      {"log1p", [](const Tensor& x) { return log1p(x); }, {-1, kInf, kNan}, {kInf, 0, kNan}},
      {"exp", [](const Tensor& x) { return exp(x); }, {kInf, -kInf, kNan}, {kInf, 0, kNan}},
      {"expm1", [](const Tensor& x) { return expm1(x); }, {kInf, -kInf, kNan}, {kInf, 0, kNan}},
      {"square",
       [](const Tensor& x) { return square(x); },
       {kInf, -kInf, kNan},
       {kInf, -kInf, kNan}},
      {"recip", [](const Tensor& x) { return recip(x); }, {0, kInf, kNan}, {-kInf, 0, kNan}},
      {"sin", [](const Tensor& x) { return sin(x); }, {kInf, kNan}, {kNan, kNan}},
      {"cos", [](const Tensor& x) { return cos(x); }, {kInf, kNan}, {kNan, kNan}},
      {"tanh", [](const Tensor& x) { return tanh(x); }, {kInf, -kInf, kNan}, {0, 0, kNan}},
      {"erf", [](const Tensor& x) { return erf(x); }, {kInf, -kInf, kNan}, {0, 0, kNan}},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }, {kInf, -kInf, kNan}, {0, 0, kNan}},
      {"silu", [](const Tensor& x) { return silu(x); }, {kInf, -kInf, kNan}, {kNan, kNan, kNan}},
      {"gelu", [](const Tensor& x) { return gelu(x); }, {kInf, -kInf, kNan}, {kNan, kNan, kNan}},
      {"pow 0", [](const Tensor& x) { return pow(x, 0); }, {kNan, kInf, 0}, {0, 0, 0}},
      {"pow 1", [](const Tensor& x) { return pow(x, 1); }, {kNan, kInf, 0}, {1, 1, 1}},
      {"pow 2", [](const Tensor& x) { return pow(x, 2); }, {kInf, kNan, 0}, {kInf, kNan, 0}},
      {"pow 0.5", [](const Tensor& x) { return pow(x, 0.5); }, {0, kInf}, {kInf, 0}},
      {"pow -1", [](const Tensor& x) { return pow(x, -1); }, {0, kInf}, {-kInf, 0}},
      {"pow of 2", [](const Tensor& x) { return pow(2, x); }, {kInf, -kInf, kNan}, {kInf, 0, kNan}},
      {"pow of 0", [](const Tensor& x) { return pow(0, x); }, {2, 0, -1}, {0, 0, -kInf}},
      {"pow to a tensor",
       [](const Tensor& x) {
         return pow(x, like(x, {0, 0, 0, 2}));
       },
       {kNan, kInf, 0, 0},
       {0, 0, 0, 0}},
      {"pow of a tensor",
       [](const Tensor& x) {
         return pow(like(x, {0, 0, 0, kInf}), x);
       },
       {2, 0, -1, 0},
       {0, 0, -kInf, kInf}},
      {"pow 0 of an infinite slope",
       [](const Tensor& x) {
         return pow(x, like(x, {0, 1})) * kInf;
       },
       {3, 3},
       {0, kInf}},
      {"div", [](const Tensor& x) { return div(1, x); }, {0, kInf, kNan}, {-kInf, 0, kNan}},
      {"max", [](const Tensor& x) { return max(x); }, {1, kNan, kNan, 2}, {0, 0.5, 0.5, 0}},
      {"min", [](const Tensor& x) { return min(x); }, {1, kNan, kNan, 2}, {0, 0.5, 0.5, 0}},
      {"max of infinities", [](const Tensor& x) { return max(x); }, {kInf, 0, kInf}, {0.5, 0, 0.5}},
      {"max of minus infinities",
       [](const Tensor& x) { return max(x); },
       {-kInf, -kInf},
       {0.5, 0.5}},
      {"max of an infinite slope",
       [](const Tensor& x) { return max(x) * kInf; },
       {1, 2},
       {0, kInf}},
      {"prod", [](const Tensor& x) { return prod(x); }, {0, kInf}, {kInf, 0}},
      {"prod of an infinite slope",
       [](const Tensor& x) { return prod(x) * kInf; },
       {0, 2},
       {kInf, 0}},
      {"logsumexp", [](const Tensor& x) { return logsumexp(x); }, {kInf, 0}, {kNan, 0}},
      {"stddev of equal values", [](const Tensor& x) { return stddev(x); }, {2, 2}, {0, 0}},
      {"l1_loss",
       [](const Tensor& x) { return l1_loss(x, zeros_like(x)); },
       {kNan, kInf, -kInf, 0},
       {0, 0.25, -0.25, 0}},
      {"mse_loss",
       [](const Tensor& x) { return mse_loss(x, zeros_like(x)); },
       {kNan, kInf, -kInf, 1},
       {kNan, kInf, -kInf, 0.5}},
      {"huber_loss",
       [](const Tensor& x) { return huber_loss(x, zeros_like(x), 2); },
       {kNan, kInf, -kInf, 1},
       {kNan, 0.5, -0.5, 0.25}},
      {"smooth_l1_loss",
       [](const Tensor& x) { return smooth_l1_loss(x, zeros_like(x), 2); },
       {kNan, kInf, -kInf, 1},
       {kNan, 0.25, -0.25, 0.125}},
      {"binary_cross_entropy_with_logits",
       [](const Tensor& x) {
         return binary_cross_entropy_with_logits(x, like(x, {1, 1, 0, 0}));
       },
       {kInf, -kInf, kInf, -kInf},
       {0, -0.25, 0.25, 0}},
      {"binary_cross_entropy_with_logits of a NaN",
       [](const Tensor& x) {
         return binary_cross_entropy_with_logits(x, like(x, {1, 0}));
       },
       {kNan, 0},
       {kNan, 0.25}},
      {"kl_div_loss",
       [](const Tensor& x) {
         return kl_div_loss(x, like(x, {0, 0, 1, kNan}));
       },
       {-kInf, kNan, 0, 0},
       {0, 0, -0.25, kNan}},
      {"cross_entropy",
       [](const Tensor& x) {
         return cross_entropy(reshape(x, {2, 2}), zeros(x.device(), {2}, DType::i64));
       },
       {0, -kInf, kNan, 0},
       {0, 0, kNan, kNan}},
  };
  return kAll;
}

bool is_same(double got, double want) {
  return std::isnan(want) ? std::isnan(got) : got == want;
}

class NonFinite : public ::testing::TestWithParam<const char*> {
 protected:
  static Runtime runtime(Fusion fusion = Fusion::on) {
    return Runtime{RuntimeOptions{.devices = {{.name = GetParam()}}, .fusion = fusion}};
  }
  // A Vulkan driver in software is slow for each kernel.
  static std::vector<DType> types() {
    return GetParam() == std::string("vulkan:0")
               ? std::vector<DType>{DType::f32}
               : std::vector<DType>{DType::f32, DType::f16, DType::bf16};
  }
  static Numbers reals(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }
  static Tensor numbers(const Device& device, const Numbers& values, const Shape& shape) {
    return Tensor::from(device, std::vector<float>(values.begin(), values.end()), shape);
  }
};

TEST_P(NonFinite, SlopesAreWhatTheTableSays) {
  for (const Fusion fusion : {Fusion::on, Fusion::off}) {
    const Runtime own = runtime(fusion);
    for (const DType dtype : types()) {
      for (const Decision& each : functions()) {
        const auto count = static_cast<std::int64_t>(each.at.size());
        const Tensor x = numbers(own.device(), each.at, {count}).to(dtype);
        const Numbers slopes =
            reals(grad([&](const Tensors& in) { return sum(each.fn(in[0])); }, {x})[0]);
        for (std::size_t i = 0; i < each.at.size(); ++i) {
          EXPECT_TRUE(is_same(slopes[i], each.slopes[i]))
              << each.name << " in " << name(dtype) << (fusion == Fusion::on ? "" : " singly")
              << " at " << each.at[i] << ": " << slopes[i] << " instead of " << each.slopes[i];
        }
      }
    }
  }
}

TEST_P(NonFinite, BothSidesOfAMaximumTakeTheSlopeOfANan) {
  const Runtime own = runtime();
  const Tensors sides{numbers(own.device(), {kNan, 1, 2}, {3}),
                      numbers(own.device(), {1, kNan, 1}, {3})};
  const Tensors slopes = grad([](const Tensors& in) { return sum(maximum(in[0], in[1])); }, sides);
  EXPECT_EQ(reals(slopes[0]), (Numbers{1, 1, 1}));
  EXPECT_EQ(reals(slopes[1]), (Numbers{1, 1, 0}));
}

// Windows [0, 2), [1, 4) and [3, 5) of five columns.
TEST_P(NonFinite, AnAdaptivePoolsWindowsDoNotSeeWhatLiesBesideThem) {
  const Runtime own = runtime();
  const Tensor x = numbers(own.device(), {kInf, 1, 2, kNan, 4}, {1, 1, 1, 5});
  const Numbers means = reals(adaptive_avg_pool2d(x, {1, 3}));
  EXPECT_EQ(means[0], kInf);
  EXPECT_TRUE(std::isnan(means[1]));
  EXPECT_TRUE(std::isnan(means[2]));
  const Tensor column = reshape(x, {1, 1, 5, 1});
  const Tensor first = numbers(own.device(), {kInf, 1, 2, 3, 6}, {1, 1, 5, 1});
  EXPECT_EQ(reals(adaptive_avg_pool2d(first, {3, 1})), (Numbers{kInf, 2, 4.5}));
  const Tensor weights = numbers(own.device(), {kInf, 0.75, kNan}, {1, 1, 3, 1});
  const Numbers slopes = reals(grad(
      [&](const Tensors& in) {
        return sum(adaptive_avg_pool2d(in[0], {3, 1}) * weights);
      },
      {column})[0]);
  EXPECT_EQ(slopes[0], kInf);
  EXPECT_EQ(slopes[1], kInf);
  EXPECT_EQ(slopes[2], 0.25);
  EXPECT_TRUE(std::isnan(slopes[3]));
  EXPECT_TRUE(std::isnan(slopes[4]));
}

// A count in the type of the values stops at 2,048 in f16 (65,504 by larger steps) and 256 in bf16.
TEST_P(NonFinite, TiesAreCountedInATypeThatHoldsTheirNumber) {
  const Runtime own = runtime();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::int64_t count : {300, 4097, 65520, 70000}) {
      const Tensor x = zeros(own.device(), {count}, dtype);
      for (Tensor (*reduce)(Arg, Axes, ReduceOptions) :
           {static_cast<Tensor (*)(Arg, Axes, ReduceOptions)>(max),
            static_cast<Tensor (*)(Arg, Axes, ReduceOptions)>(min)}) {
        const Tensor slope =
            grad([&](const Tensors& in) { return reduce(in[0], {}, {}).to(DType::f32) * 1000.0; },
                 {x})[0];
        EXPECT_NEAR(slope.to(DType::f64).to_vector<double>()[0],
                    1000.0 / static_cast<double>(count),
                    1000.0 / static_cast<double>(count) / 250);
      }
    }
  }
}

TEST_P(NonFinite, SixteenBitsAreAveragedAndNormedOverAnyNumber) {
  const Runtime own = runtime();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = ones(own.device(), {70000}, dtype);
    const Tensor rows = ones(own.device(), {70000, 1}, dtype);
    EXPECT_EQ(mean(x).item(), 1);
    EXPECT_EQ(mean(rows, 0).item(), 1);
    EXPECT_EQ(var(x).item(), 0);
    EXPECT_EQ(stddev(concat({x, -x}, 0)).item(), 1);
    EXPECT_EQ(mse_loss(x, zeros_like(x)).item(), 1);
    EXPECT_EQ(l1_loss(x, zeros_like(x)).item(), 1);
    EXPECT_NEAR(rms_norm(x).to(DType::f64).to_vector<double>()[0], 1, 1e-2);
    EXPECT_NEAR(
        cross_entropy(concat({rows, rows}, 1), zeros(own.device(), {70000}, DType::i64)).item(),
        std::log(2.0),
        4e-3);
    const LossSum part{.sum = ones(own.device(), {}, dtype), .weight = sum(x.to(DType::f32))};
    EXPECT_NEAR(part.mean().item() * 70000, 1, 4e-3);
    CrossEntropyOptions options;
    options.ignore_index = 1;
    EXPECT_NEAR(
        cross_entropy(concat({rows, rows}, 1), zeros(own.device(), {70000}, DType::i64), options)
            .item(),
        std::log(2.0),
        4e-3);
  }
}

// A padded position may hold anything: 0 times the NaN of its softmax would be NaN.
TEST_P(NonFinite, IgnoredRowsOfACrossEntropyTakeNoSlope) {
  for (const Fusion fusion : {Fusion::on, Fusion::off}) {
    const Runtime of = runtime(fusion);
    const Tensor x = numbers(of.device(), {1, 1, kNan, kNan, kInf, 0, 2, 2}, {4, 2});
    const Tensor targets = Tensor::from(of.device(), std::vector<std::int64_t>{0, 7, 7, 1}, {4});
    for (const double smoothing : {0.0, 0.5}) {
      CrossEntropyOptions options;
      options.ignore_index = 7;
      options.label_smoothing = smoothing;
      const double part = (1 - smoothing) / 4;
      const auto mean_of = [&](const Tensors& in) {
        return cross_entropy(in[0], targets, options);
      };
      const auto sum_of = [&](const Tensors& in) {
        return cross_entropy_sum(in[0], targets, options).mean();
      };
      const Numbers want{-part, part, 0, 0, 0, 0, part, -part};
      EXPECT_EQ(reals(grad(mean_of, {x})[0]), want) << smoothing;
      EXPECT_EQ(reals(grad(sum_of, {x})[0]), want) << smoothing;
      EXPECT_NEAR(mean_of({x}).item(), std::log(2.0), 1e-6) << smoothing;
    }
  }
}

// The maximum absorbs the smaller logits: for equal classes the loss is the logarithm of their
// number.
TEST_P(NonFinite, LossesOfLargeLogitsAreThoseOfTheirDifferences) {
  for (const Fusion fusion : {Fusion::on, Fusion::off}) {
    const Runtime of = runtime(fusion);
    for (const double size : {1e4, 1e9, -1e9, -3.4e38, 3.4e38}) {
      const Tensor x = full(of.device(), {3, 64}, size);
      const Tensor targets = zeros(of.device(), {3}, DType::i64);
      EXPECT_NEAR(cross_entropy(x, targets).item(), std::log(64.0), 1e-5) << size;
      EXPECT_NEAR(log_softmax(x).to_vector<float>()[5], -std::log(64.0), 1e-5) << size;
      EXPECT_NEAR(log_softmax(x, 0).to_vector<float>()[5], -std::log(3.0), 1e-5) << size;
      EXPECT_NEAR(softmax(x).to_vector<float>()[5], 1 / 64.0, 1e-7) << size;
      const Numbers slopes =
          reals(grad([&](const Tensors& in) { return cross_entropy(in[0], targets); }, {x})[0]);
      EXPECT_NEAR(slopes[0], (1 / 64.0 - 1) / 3, 1e-6) << size;
      EXPECT_NEAR(slopes[1], 1 / 64.0 / 3, 1e-7) << size;
      const Numbers shares =
          reals(grad([](const Tensors& in) { return logsumexp(in[0]); }, {x})[0]);
      EXPECT_NEAR(shares[7], 1 / 192.0, 1e-7) << size;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices,
                         NonFinite,
                         HEARTH_TESTED_DEVICES("cpu:0", "reference:0"),
                         [](const auto& tested) { return std::string(tested.param).substr(0, 3); });

}  // namespace
}  // namespace hearth
