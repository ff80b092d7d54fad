// Losses over whole tensors: values, stability far from 0, gradients and refusals.
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
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRandom;
using testing::thrown_text;
using LossTest = testing::ReferenceTest;
using Tensors = std::vector<Tensor>;

double cross_entropy_of(double x, double t) {
  return std::fmax(x, 0) - x * t + std::log1p(std::exp(-std::fabs(x)));
}

TEST_F(LossTest, MeanSquaredErrorIsTheMeanOfSquares) {
  const Tensor loss = mse_loss(f64({1, 2, 3, 4}, {2, 2}), f64({1, 0, 6, 4}, {2, 2}));
  EXPECT_EQ(loss.shape(), Shape{});
  EXPECT_EQ(loss.item(), (4.0 + 9.0) / 4);
  const Tensor narrow = cast(f64({300, 0}, {2}), DType::f16);
  const Tensor wanted = cast(f64({0, 0}, {2}), DType::f16);
  EXPECT_EQ(reals(mse_loss(narrow, wanted))[0], 44992) << "the square of 300 is beyond f16";
  EXPECT_TRUE(std::isnan(mse_loss(zeros(device(), {0}), zeros(device(), {0})).item()));
}

TEST_F(LossTest, BinaryCrossEntropyIsRightFarFromZero) {
  const std::vector<double> logits{-800, -2, 0, 3, 800};
  const std::vector<double> targets{0, 0.25, 1, 0, 1};
  double want = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    want += cross_entropy_of(logits[i], targets[i]) / 5;
  }
  const double got = binary_cross_entropy_with_logits(f64(logits, {5}), f64(targets, {5})).item();
  EXPECT_NEAR(got, want, 1e-12);
  EXPECT_EQ(binary_cross_entropy_with_logits(f64({-800}, {1}), f64({1}, {1})).item(), 800);
}

TEST_F(LossTest, BinaryCrossEntropyHasTheSlopeOfTheSigmoid) {
  const Tensor targets = f64({1, 0, 0.5}, {3});
  const Tensor slopes =
      grad([&](const Tensors& in) { return binary_cross_entropy_with_logits(in[0], targets) * 3; },
           {f64({0, 0, 0}, {3})})[0];
  EXPECT_THAT(reals(slopes), ElementsAre(-0.5, 0.5, 0)) << "at 0, where its parts have kinks";
}

TEST_F(LossTest, BinaryCrossEntropyCountsPositivesByTheirWeight) {
  const std::vector<double> logits{-2, 0.5, 3, -1, 2, -0.25};
  const std::vector<double> targets{1, 0.25, 0, 0, 1, 0.5};
  const std::vector<double> weights{3, 0.5, 1};
  double want = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double p = 1 / (1 + std::exp(-logits[i]));
    want -= weights[i % 3] * targets[i] * std::log(p) + (1 - targets[i]) * std::log(1 - p);
  }
  const Tensor weight = f64(weights, {3});
  const auto loss = [&](const Tensors& in) {
    return binary_cross_entropy_with_logits(in[0], in[1], {.positive_weight = weight});
  };
  EXPECT_NEAR(loss({f64(logits, {2, 3}), f64(targets, {2, 3})}).item(), want / 6, 1e-12);
  EXPECT_NEAR(loss({f64({-800, 0, 0}, {3}), f64({1, 0, 0}, {3})}).item(),
              (3 * 800 + 2 * std::log(2.0)) / 3,
              1e-9);
  HostRandom random(41);
  check_gradients(device(), loss, {random.signed_values({2, 3}), random.uniform({2, 3}, 0.1, 0.9)});

  const Tensor x = counting({3});
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)binary_cross_entropy_with_logits(x, x, {.positive_weight = counting({2, 3})});
            }),
            "binary_cross_entropy_with_logits: positive_weight must broadcast to the logits' [3], "
            "is f64[2, 3]");
}

TEST_F(LossTest, BinaryCrossEntropyTakesLogitsThatAreATemporary) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = cast(f64({-2, 0.5, 3}, {3}), dtype);
    const Tensor targets = cast(f64({1, 0, 0.5}, {3}), dtype);
    const Tensor weight = f64({3, 0.5, 1}, {3});
    const BinaryCrossEntropyOptions options{.positive_weight = weight};
    const double want = binary_cross_entropy_with_logits(x, targets, options).item();
    EXPECT_EQ(binary_cross_entropy_with_logits(x + 0, targets, options).item(), want);
    EXPECT_EQ(binary_cross_entropy_with_logits(x + 0, targets + 0, options).item(), want);
    Tensor taken = x + 0;
    EXPECT_EQ(binary_cross_entropy_with_logits(std::move(taken), targets, options).item(), want);
  }
  EXPECT_EQ(thrown_text<ShapeError>([&] {
              (void)binary_cross_entropy_with_logits(
                  counting({3}) + 0, counting({3}), {.positive_weight = counting({2})});
            }),
            "binary_cross_entropy_with_logits: positive_weight must broadcast to the logits' [3], "
            "is f64[2]");
}

TEST_F(LossTest, NegativeLogLikelihoodOfALogSoftmaxIsCrossEntropy) {
  const Tensor x = f64({1, 2, -1, 0.5, 0, 3}, {2, 3});
  const Tensor targets = i32({2, 0}, {2});
  EXPECT_NEAR(nll_loss(log_softmax(x), targets).item(), cross_entropy(x, targets).item(), 1e-12);
  EXPECT_EQ(nll_loss(f64({-1, -2, -3, -4}, {2, 2}), i64({1, 0}, {2})).item(), 2.5);
  check_gradients(device(),
                  [&](const Tensors& in) { return nll_loss(in[0], targets); },
                  {HostRandom(37).signed_values({2, 3})});
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)nll_loss(x, i32({1}, {1})); }),
            "nll_loss: the number of rows differs: logits f64[2, 3], targets i32[1]");
  EXPECT_THAT(thrown_text<DtypeError>([&] { (void)nll_loss(x, x); }), HasSubstr("nll_loss"));
}

TEST_F(LossTest, GradientsMatchDifferences) {
  HostRandom random(36);
  const auto x = random.signed_values({2, 3});
  const auto target = random.uniform({2, 3}, 0.1, 0.9);
  check_gradients(device(), [](const Tensors& in) { return mse_loss(in[0], in[1]); }, {x, target});
  check_gradients(device(),
                  [](const Tensors& in) { return binary_cross_entropy_with_logits(in[0], in[1]); },
                  {x, target});
}

TEST_F(LossTest, RefusesTargetsThatWouldBroadcast) {
  const Tensor x = counting({2, 3});
  EXPECT_EQ(thrown_text<ShapeError>([&] { (void)mse_loss(x, counting({3})); }),
            "mse_loss: shapes differ: prediction f64[2, 3], target f64[3]");
  EXPECT_EQ(thrown_text<DtypeError>([&] { (void)mse_loss(x, cast(x, DType::f32)); }),
            "mse_loss: element types differ: prediction f64[2, 3], target f32[2, 3]");
  EXPECT_THAT(thrown_text<DtypeError>(
                  [&] { (void)binary_cross_entropy_with_logits(x, cast(x, DType::i32)); }),
              HasSubstr("binary_cross_entropy_with_logits: does not take i32"));
}

TEST_F(LossTest, AbsoluteAndHuberLossesAreWhatTheyAreByHand) {
  const Tensor x = f64({0, 1, 2, -4}, {4});
  const Tensor t = f64({0, 0.5, 0, 0}, {4});
  EXPECT_EQ(l1_loss(x, t).item(), (0 + 0.5 + 2 + 4) / 4);
  EXPECT_EQ(huber_loss(x, t).item(), (0 + 0.125 + 1.5 + 3.5) / 4);
  EXPECT_EQ(huber_loss(x, t, 2).item(), (0 + 0.125 + 2 + 6) / 4);
  EXPECT_EQ(smooth_l1_loss(x, t, 2).item(), huber_loss(x, t, 2).item() / 2);
  EXPECT_EQ(smooth_l1_loss(x, t, 0).item(), l1_loss(x, t).item());
  const Tensor narrow = cast(f64({60000, 0}, {2}), DType::f16);
  EXPECT_EQ(reals(huber_loss(narrow, zeros_like(narrow), 2))[0], 60000) << "a sum beyond f16";
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)huber_loss(x, t, 0); }),
            "huber_loss: delta 0 is not above 0");
  EXPECT_EQ(thrown_text<ArgumentError>([&] { (void)smooth_l1_loss(x, t, -1); }),
            "smooth_l1_loss: beta -1 is not above 0");
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)l1_loss(x, f64({1}, {1})); }),
              HasSubstr("l1_loss: shapes differ"));
}

TEST_F(LossTest, DivergenceIsZeroForEqualDistributionsAndSkipsWhatIsNotThere) {
  const Tensor p = f64({0.5, 0.5, 0, 0.25, 0.25, 0.5}, {2, 3});
  const Tensor q = f64({0.25, 0.5, 0.25, 0.25, 0.25, 0.5}, {2, 3});
  EXPECT_NEAR(kl_div_loss(log(q), p).item(), 0.5 * std::log(2.0) / 2, 1e-12);
  EXPECT_NEAR(kl_div_loss(log(q), q).item(), 0, 1e-12);
  const std::vector<Tensor> slopes =
      grad([](const Tensors& in) { return kl_div_loss(in[0], in[1]); }, {log(q), p});
  EXPECT_EQ(reals(slopes[0])[2], 0);
  EXPECT_EQ(reals(slopes[1])[2], 0) << "where the target has nothing";
  EXPECT_THAT(thrown_text<ShapeError>([&] { (void)kl_div_loss(f64({0}, {}), f64({1}, {})); }),
              HasSubstr("kl_div_loss: needs a row of classes"));
}

TEST_F(LossTest, GradientsOfDistancesMatchDifferences) {
  HostRandom random(38);
  const auto x = random.distinct({2, 3});
  const auto far = random.uniform({2, 3}, 2.05, 2.06);
  const auto some = random.uniform({2, 3}, 0.1, 0.9);
  check_gradients(device(), [](const Tensors& in) { return l1_loss(in[0], in[1]); }, {x, far});
  check_gradients(
      device(), [](const Tensors& in) { return huber_loss(in[0], in[1], 1.8); }, {x, far});
  check_gradients(
      device(), [](const Tensors& in) { return smooth_l1_loss(in[0], in[1], 1.8); }, {x, far});
  check_gradients(device(), [](const Tensors& in) { return kl_div_loss(in[0], in[1]); }, {x, some});
}

}  // namespace
}  // namespace hearth
