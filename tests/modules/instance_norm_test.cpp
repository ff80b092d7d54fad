// InstanceNorm: each channel of each example, running statistics, and what it refuses.
#include <hearth/modules/freeze_weights.hpp>
#include <hearth/modules/instance_norm.hpp>
#include <hearth/modules/sequential.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// Two sequences of two elements with two channels: 1, 3 and 0, 4; then 5, 7 and 2, 2.
Tensor sequences(const Device& device) {
  return Tensor::from<double>(device, {1.0, 3.0, 0.0, 4.0, 5.0, 7.0, 2.0, 2.0}, {2, 2, 2});
}

TEST(InstanceNorm, NormalisesEachChannelOfEachExample) {
  TestRuntime test;
  InstanceNorm layer({.channels = 2, .epsilon = 0.5, .affine = true}, test.reference, DType::f64);
  layer.weight = Tensor::from<double>(test.reference, {1.0, 2.0}, {2});
  layer.bias = Tensor::from<double>(test.reference, {0.0, 10.0}, {2});
  const double a = 1 / std::sqrt(1.5);
  const double b = 4 / std::sqrt(4.5);
  const std::vector<double> wanted{-a, a, 10 - b, 10 + b, -a, a, 10, 10};
  const Tensor x = sequences(test.reference);
  EXPECT_THAT(layer.forward(x).to_vector<double>(), Pointwise(DoubleNear(1e-12), wanted));
  for (const Mode mode : {Mode::train, Mode::eval}) {
    EXPECT_THAT(layer.forward(x, mode).to_vector<double>(), Pointwise(DoubleNear(1e-12), wanted));
  }
  const Tensor pictures = reshape(x, {2, 2, 1, 2});
  const Tensor volumes = reshape(x, {2, 2, 1, 2, 1});
  EXPECT_EQ(layer.forward(pictures).to_vector<double>(), layer.forward(x).to_vector<double>());
  EXPECT_EQ(layer.forward(volumes).shape(), volumes.shape());
}

TEST(InstanceNorm, HasPlainTensorsOnlyWhereAskedFor) {
  TestRuntime test;
  const auto names = [](const InstanceNorm& layer) {
    std::vector<std::string> all;
    for (const NamedTensor& each : named_tensors(layer)) {
      all.push_back(each.name);
    }
    return all;
  };
  EXPECT_THAT(names(InstanceNorm1d({.channels = 3}, test.reference)), ElementsAre());
  EXPECT_THAT(names(InstanceNorm2d({.channels = 3, .affine = true}, test.reference)),
              ElementsAre("weight", "bias"));
  EXPECT_THAT(names(InstanceNorm3d({.channels = 3, .track_running_stats = true}, test.reference)),
              ElementsAre("running_mean", "running_variance"));
}

TEST(InstanceNorm, MovesRunningStatisticsTowardsTheMeanOfTheExamples) {
  TestRuntime test;
  InstanceNorm layer({.channels = 2, .epsilon = 0.5, .momentum = 0.5, .track_running_stats = true},
                     test.reference,
                     DType::f64);
  const Tensor x = sequences(test.reference);
  StateUpdates updates;
  const Tensor y = layer.forward(x, Mode::train, updates);
  const InstanceNorm plain({.channels = 2, .epsilon = 0.5}, test.reference, DType::f64);
  EXPECT_EQ(y.to_vector<double>(), plain.forward(x).to_vector<double>());
  EXPECT_EQ(updates.size(), 2U);
  updates.commit(layer).get();
  // The means of the examples are 2, 6 and 2, 2; their variances 2, 2 and 8, 0.
  EXPECT_THAT(layer.running_mean->to_vector<double>(), ElementsAre(2, 1));
  EXPECT_THAT(layer.running_variance->to_vector<double>(),
              Pointwise(DoubleNear(1e-12), {1.5, 2.5}));
  const double a = 1 / std::sqrt(2.0);
  const double b = 1 / std::sqrt(3.0);
  EXPECT_THAT(layer.forward(x, Mode::eval).to_vector<double>(),
              Pointwise(DoubleNear(1e-12), {-a, a, -b, 3 * b, 3 * a, 5 * a, b, b}));
  freeze_weights(layer);
  StateUpdates none;
  EXPECT_EQ(layer.forward(x, Mode::train, none).to_vector<double>(),
            layer.forward(x, Mode::eval).to_vector<double>());
  EXPECT_EQ(none.size(), 0U);
}

TEST(InstanceNorm, StandsInASequential) {
  TestRuntime test;
  const Tensor x = sequences(test.reference);
  const Sequential plain(InstanceNorm({.channels = 2}, test.reference, DType::f64));
  EXPECT_EQ(plain.forward(x).to_vector<double>(),
            plain.forward(x, Mode::train).to_vector<double>());
  const Sequential tracking(
      InstanceNorm({.channels = 2, .track_running_stats = true}, test.reference, DType::f64));
  StateUpdates updates;
  const StateScope scope(updates);
  (void)tracking.forward(x, Mode::train);
  EXPECT_EQ(updates.size(), 2U);
}

TEST(InstanceNorm, KeepsStatisticsOfNarrowLayersInF32) {
  TestRuntime test;
  const InstanceNorm layer(
      {.channels = 2, .affine = true, .track_running_stats = true}, test.reference, DType::f16);
  EXPECT_EQ(layer.running_mean->dtype(), DType::f32);
  const Tensor x = cast(sequences(test.reference), DType::f16);
  StateUpdates updates;
  EXPECT_EQ(layer.forward(x, Mode::train, updates).dtype(), DType::f16);
  EXPECT_EQ(layer.forward(x, Mode::eval).dtype(), DType::f16);
}

template <class Fn>
std::string mistake(const Fn& fn) {
  try {
    fn();
  } catch (const ArgumentError& error) {
    return error.error().text;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(InstanceNorm, RefusesWhatItCannotNormalise) {
  TestRuntime test;
  const InstanceNorm layer({.channels = 2}, test.reference, DType::f64);
  const auto text = [&](const Shape& shape) {
    return mistake([&] { (void)layer.forward(zeros(test.reference, shape, DType::f64)); });
  };
  EXPECT_EQ(text({2, 3, 4}),
            "InstanceNorm: needs [n, 2, ...] with one to three axes behind the channels and two "
            "values or more in each channel, got f64[2, 3, 4]");
  EXPECT_THAT(text({2, 2}), HasSubstr("got f64[2, 2]"));
  EXPECT_THAT(text({2, 2, 1, 1}), HasSubstr("two values or more"));
  EXPECT_THAT(text({2, 2, 1, 1, 2, 2}), HasSubstr("one to three axes"));
  EXPECT_THAT(mistake([&] { (void)layer.forward(1.0); }), HasSubstr("InstanceNorm"));
  const InstanceNorm tracking({.channels = 2, .track_running_stats = true}, test.reference);
  const Tensor x = sequences(test.reference);
  EXPECT_THAT(mistake([&] { (void)tracking.forward(cast(x, DType::f32)); }),
              HasSubstr("needs a mode"));
  EXPECT_THAT(mistake([&] { (void)tracking.forward(x, Mode::eval); }),
              HasSubstr("the layer is f32, x is f64[2, 2, 2]"));
  EXPECT_THAT(mistake([&] { (void)InstanceNorm({.channels = 0}, test.reference); }),
              HasSubstr("InstanceNorm: needs 1 or more channels"));
  EXPECT_THAT(mistake([&] { (void)InstanceNorm({.channels = 1, .momentum = 2}, test.reference); }),
              HasSubstr("a momentum in 0 to 1"));
}

}  // namespace
}  // namespace hearth
