// BatchNorm2d, and the pending updates of running statistics beside the gradients.
#include <hearth/modules/activations.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/sgd.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/recompute.hpp>

#include <cmath>
#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// Two pictures of 1x2 pixels with two channels: channel 0 has 1, 3, 5, 7, channel 1 zeros and 4.
Tensor pictures(const Device& device, DType dtype = DType::f64) {
  const Tensor x =
      Tensor::from<double>(device, {1.0, 3.0, 0.0, 0.0, 5.0, 7.0, 0.0, 4.0}, {2, 2, 1, 2});
  return cast(x, dtype);
}

TEST(BatchNorm2d, NormalisesEachChannelByTheBatch) {
  TestRuntime test;
  BatchNorm2d layer({.channels = 2, .epsilon = 0}, test.reference, DType::f64);
  layer.weight = Tensor::from<double>(test.reference, {1.0, 2.0}, {2});
  layer.bias = Tensor::from<double>(test.reference, {0.0, 10.0}, {2});
  StateUpdates updates;
  const Tensor y = layer.forward(pictures(test.reference), Mode::train, updates);
  const double a = 1 / std::sqrt(5.0);
  const double b = 2 / std::sqrt(3.0);
  EXPECT_THAT(
      y.to_vector<double>(),
      Pointwise(DoubleNear(1e-12), {-3 * a, -a, 10 - b, 10 - b, a, 3 * a, 10 - b, 10 + 3 * b}));
}

TEST(BatchNorm2d, MovesTheRunningStatisticsByACommit) {
  TestRuntime test;
  BatchNorm2d layer({.channels = 2, .momentum = 0.5}, test.reference, DType::f64);
  StateUpdates updates;
  (void)layer.forward(pictures(test.reference), Mode::train, updates);
  EXPECT_EQ(updates.size(), 2U);
  EXPECT_THAT(layer.running_mean.to_vector<double>(), Each(0)) << "it waits for the commit";
  updates.commit(layer).get();
  EXPECT_EQ(updates.size(), 0U);
  EXPECT_THAT(layer.running_mean.to_vector<double>(), ElementsAre(2, 0.5));
  EXPECT_THAT(layer.running_variance.to_vector<double>(),
              Pointwise(DoubleNear(1e-12), {0.5 + 0.5 * 20 / 3, 0.5 + 0.5 * 4}));
}

TEST(BatchNorm2d, EvaluatesWithTheRunningStatistics) {
  TestRuntime test;
  BatchNorm2d layer({.channels = 2, .epsilon = 0}, test.reference, DType::f64);
  layer.running_mean = Tensor::from<double>(test.reference, {1.0, 2.0}, {2});
  layer.running_variance = Tensor::from<double>(test.reference, {4.0, 0.25}, {2});
  layer.bias = Tensor::from<double>(test.reference, {0.0, 1.0}, {2});
  EXPECT_THAT(layer.forward(pictures(test.reference), Mode::eval).to_vector<double>(),
              ElementsAre(0, 1, -3, -3, 2, 3, -3, 5));
}

TEST(BatchNorm2d, ALayerThatRanTwiceMovesTwice) {
  TestRuntime test;
  const Tensor x = pictures(test.reference);
  BatchNorm2d one({.channels = 2}, test.reference, DType::f64);
  BatchNorm2d two = fork(one, test.reference);
  StateUpdates updates;
  for (const double factor : {1.0, -2.0}) {
    (void)one.forward(x * factor, Mode::train, updates);
    updates.commit(one).get();
  }
  for (const double factor : {1.0, -2.0}) {
    (void)two.forward(x * factor, Mode::train, updates);
  }
  EXPECT_EQ(updates.size(), 2U);
  updates.commit(two).get();
  EXPECT_THAT(two.running_mean.to_vector<double>(),
              Pointwise(DoubleNear(1e-12), one.running_mean.to_vector<double>()));
  EXPECT_THAT(two.running_variance.to_vector<double>(),
              Pointwise(DoubleNear(1e-12), one.running_variance.to_vector<double>()));
}

TEST(BatchNorm2d, TrainsInsideAModelThroughAScope) {
  TestRuntime test;
  Generator generator(3);
  auto model = Sequential(Conv2d({.in = 1, .out = 2, .kernel = {1, 1}}, test.cpu, generator),
                          BatchNorm2d({.channels = 2}, test.cpu),
                          Relu{});
  const Tensor x = random_normal(test.cpu, {4, 1, 3, 3}, generator, 5);
  EXPECT_THROW((void)model.forward(x, Mode::train), ArgumentError);
  StateUpdates updates;
  const StateScope scope(updates);
  Sgd sgd({.learning_rate = 0.1});
  double first = 0;
  double last = 0;
  for (int step = 0; step < 60; ++step) {
    auto [loss, gradients] = value_and_grad(
        model, [&](const auto& m) { return mean(square(m.forward(x, Mode::train) - 1)); });
    sgd.step(model, std::move(gradients)).get();
    updates.commit(model).get();
    last = loss.item();
    first = step == 0 ? last : first;
  }
  EXPECT_LT(last, 0.9 * first);
  // The statistics match the data by now, so both modes nearly agree.
  const double difference =
      mean(abs(model.forward(x, Mode::train) - model.forward(x, Mode::eval))).item();
  EXPECT_LT(difference, 0.05);
  EXPECT_GT(difference, 0);
}

TEST(BatchNorm2d, SaysWhereTrainingNeedsAPlace) {
  TestRuntime test;
  const BatchNorm2d layer({.channels = 2}, test.cpu);
  try {
    (void)layer.forward(pictures(test.cpu, DType::f32), Mode::train);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("BatchNorm2d: training changes running statistics"));
  }
}

TEST(BatchNorm2d, RefusesOtherShapesAndTypes) {
  TestRuntime test;
  const BatchNorm2d layer({.channels = 3}, test.cpu);
  StateUpdates updates;
  const auto forward = [&](const Tensor& x, Mode mode) { (void)layer.forward(x, mode, updates); };
  EXPECT_THROW(forward(ones(test.cpu, {2, 2, 4, 4}), Mode::eval), ShapeError);
  EXPECT_THROW(forward(ones(test.cpu, {1, 3, 1, 1}), Mode::train), ShapeError);
  EXPECT_NO_THROW(forward(ones(test.cpu, {1, 3, 1, 1}), Mode::eval));
  EXPECT_THROW(forward(ones(test.cpu, {2, 3, 4, 4}, DType::f16), Mode::eval), DtypeError);
  EXPECT_THROW((void)layer.forward(1.0, Mode::eval), ArgumentError);
  EXPECT_THROW(BatchNorm2d({.channels = 0}, test.cpu), ArgumentError);
  EXPECT_THROW(BatchNorm2d({.channels = 1, .momentum = 2}, test.cpu), ArgumentError);
  EXPECT_EQ(updates.size(), 0U);
}

TEST(StateUpdates, LeaveTheBuffersOfAFailedPass) {
  TestRuntime test;
  BatchNorm2d layer({.channels = 2}, test.cpu);
  // A row that does not exist poisons the input, and with it the statistics.
  const Tensor bad = index_select(
      pictures(test.cpu, DType::f32), 0, Tensor::from<std::int64_t>(test.cpu, {0, 7}, {2}));
  StateUpdates updates;
  (void)layer.forward(bad, Mode::train, updates);
  Pending<void> done = updates.commit(layer);
  EXPECT_THROW(std::move(done).get(), DeviceError);
  EXPECT_THAT(layer.running_mean.to_vector<float>(), Each(0));
  EXPECT_THAT(layer.running_variance.to_vector<float>(), Each(1));
}

TEST(StateUpdates, BelongToTheModelOfTheForwardPass) {
  TestRuntime test;
  BatchNorm2d layer({.channels = 2}, test.cpu);
  BatchNorm2d other({.channels = 2}, test.cpu);
  StateUpdates updates;
  (void)layer.forward(pictures(test.cpu, DType::f32), Mode::train, updates);
  EXPECT_THROW((void)updates.commit(other), ArgumentError);
  EXPECT_EQ(updates.size(), 2U) << "they still wait";
  auto model = Sequential(layer, layer);
  try {
    (void)updates.commit(model);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("0.running_mean and 1.running_mean are one tensor"));
  }
  updates.clear();
  EXPECT_TRUE(updates.commit(other).is_ready()) << "of nothing";
}

TEST(StateUpdates, RefuseWhatIsNotLikeTheBuffer) {
  TestRuntime test;
  const Buffer buffer(zeros(test.cpu, {2}));
  StateUpdates updates;
  EXPECT_THROW(updates.blend(buffer, zeros(test.cpu, {3}), 0.5), ShapeError);
  EXPECT_THROW(updates.blend(buffer, zeros(test.cpu, {2}, DType::f64), 0.5), DtypeError);
  EXPECT_THROW(updates.blend(buffer, zeros(test.cpu, {2}), 1.5), ArgumentError);
  EXPECT_EQ(updates.size(), 0U);
}

// The second run of a checkpointed function, in the backward pass, updates no statistics: with its
// own updates, and after the scope of the forward pass has ended.
TEST(BatchNorm2d, ACheckpointMovesTheRunningStatisticsOnce) {
  TestRuntime test;
  const Tensor x = pictures(test.reference);
  const BatchNorm2d layer({.channels = 2}, test.reference, DType::f64);
  const auto step = [&](const auto& forward) {
    BatchNorm2d model = fork(layer, test.reference);
    StateUpdates updates;
    const auto result = value_and_grad(
        model, [&](const BatchNorm2d& tracked) { return sum(square(forward(tracked, updates))); });
    EXPECT_EQ(updates.size(), 2U);
    updates.commit(model).get();
    std::vector<std::vector<double>> values{model.running_mean.to_vector<double>(),
                                            model.running_variance.to_vector<double>()};
    for (std::size_t i = 0; i < result.gradients.size(); ++i) {
      values.push_back(result.gradients[i].template to_vector<double>());
    }
    return values;
  };
  const auto plain = step([&](const BatchNorm2d& norm, StateUpdates& updates) {
    return norm.forward(x, Mode::train, updates);
  });
  EXPECT_EQ(step([&](const BatchNorm2d& norm, StateUpdates& updates) {
              return checkpoint(
                  [](const BatchNorm2d& inner, const Tensor& in, StateUpdates& to) {
                    return inner.forward(in, Mode::train, to);
                  },
                  norm,
                  x,
                  std::ref(updates));
            }),
            plain);
  EXPECT_EQ(step([&](const BatchNorm2d& norm, StateUpdates& updates) {
              const StateScope scope(updates);
              return checkpoint([](const BatchNorm2d& inner,
                                   const Tensor& in) { return inner.forward(in, Mode::train); },
                                norm,
                                x);
            }),
            plain);
}

}  // namespace
}  // namespace hearth
