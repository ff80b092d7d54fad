// BatchNorm1d, BatchNorm2d and BatchNorm3d, and the pending updates of running statistics beside
// the gradients.
#include <hearth/modules/activations.hpp>
#include <hearth/modules/batch_norm1d.hpp>
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/batch_norm3d.hpp>
#include <hearth/modules/conv2d.hpp>
#include <hearth/modules/freeze_weights.hpp>
#include <hearth/modules/sequential.hpp>
#include <hearth/modules/sgd.hpp>

#include "test_runtime.hpp"

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/recompute.hpp>

#include <cmath>
#include <functional>
#include <string>
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

// ---- BatchNorm1d and BatchNorm3d ----

struct NormByLoops {
  std::vector<double> values;
  std::vector<double> means;      // of each channel
  std::vector<double> variances;  // of each channel; they divide by count - 1
};

// x [n, channels, ...] normalised by loops over its elements, without epsilon.
NormByLoops normalised(const Tensor& x) {
  NormByLoops result{.values = x.to_vector<double>(), .means = {}, .variances = {}};
  const auto channels = static_cast<std::size_t>(x.size(1));
  const std::size_t inner = result.values.size() / channels / static_cast<std::size_t>(x.size(0));
  const auto channel_of = [&](std::size_t i) { return i / inner % channels; };
  const auto count = static_cast<double>(result.values.size() / channels);
  std::vector<double> squares(channels);
  result.means.resize(channels);
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    result.means[channel_of(i)] += result.values[i] / count;
  }
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    result.values[i] -= result.means[channel_of(i)];
    squares[channel_of(i)] += result.values[i] * result.values[i];
  }
  for (std::size_t i = 0; i < result.values.size(); ++i) {
    result.values[i] /= std::sqrt(squares[channel_of(i)] / count);
  }
  for (const double sum : squares) {
    result.variances.push_back(sum / (count - 1));
  }
  return result;
}

// In training, then in evaluation with the statistics of that batch.
template <class Layer>
void expect_normalised(Layer layer, const Tensor& x) {
  const NormByLoops want = normalised(x);
  StateUpdates updates;
  EXPECT_THAT(layer.forward(x, Mode::train, updates).template to_vector<double>(),
              Pointwise(DoubleNear(1e-12), want.values));
  updates.commit(layer).get();
  EXPECT_THAT(layer.running_mean.template to_vector<double>(),
              Pointwise(DoubleNear(1e-12), want.means));
  EXPECT_THAT(layer.running_variance.template to_vector<double>(),
              Pointwise(DoubleNear(1e-12), want.variances));
  const auto count = static_cast<double>(x.element_count() / x.size(1));
  const Tensor evaluated = layer.forward(x, Mode::eval) * std::sqrt(count / (count - 1));
  EXPECT_THAT(evaluated.template to_vector<double>(), Pointwise(DoubleNear(1e-12), want.values));
  freeze_weights(layer);
  EXPECT_TRUE(all_equal(layer.forward(x, Mode::train), layer.forward(x, Mode::eval)));
}

TEST(BatchNorm1d, NormalisesVectorsAndSequences) {
  TestRuntime test;
  Generator generator(3);
  const BatchNormConfig config{.channels = 3, .epsilon = 0, .momentum = 1};
  for (const Shape& shape : {Shape{7, 3}, Shape{5, 3, 4}, Shape{1, 3, 2}, Shape{2, 3, 1}}) {
    const Tensor x = random_normal(test.reference, shape, generator, 2, 3, DType::f64);
    expect_normalised(BatchNorm1d(config, test.reference, DType::f64), x);
    const BatchNormConfig plain{.channels = 3, .epsilon = 0, .momentum = 1, .affine = false};
    expect_normalised(BatchNorm1d(plain, test.reference, DType::f64), x);
  }
}

TEST(BatchNorm3d, NormalisesVolumes) {
  TestRuntime test;
  Generator generator(3);
  const Tensor x = random_normal(test.reference, {2, 3, 2, 3, 5}, generator, 2, 3, DType::f64);
  expect_normalised(
      BatchNorm3d({.channels = 3, .epsilon = 0, .momentum = 1}, test.reference, DType::f64), x);
}

TEST(BatchNorm1d, IsBatchNorm2dOfOneRowAndKeepsWideStatistics) {
  TestRuntime test;
  Generator generator(4);
  const Tensor x = random_normal(test.cpu, {6, 2, 5}, generator, 1, 2, DType::bf16);
  const BatchNorm1d flat({.channels = 2}, test.cpu, DType::bf16);
  const BatchNorm2d image({.channels = 2}, test.cpu, DType::bf16);
  EXPECT_EQ(flat.running_mean.dtype(), DType::f32);
  StateUpdates updates;
  const Tensor got = flat.forward(x, Mode::train, updates);
  EXPECT_EQ(got.dtype(), DType::bf16);
  const Tensor want = squeeze(image.forward(unsqueeze(x, 2), Mode::train, updates), 2);
  EXPECT_TRUE(all_equal(got, want));
}

TEST(BatchNorm1d, RefusesOtherShapesAndTypes) {
  TestRuntime test;
  const BatchNorm1d flat({.channels = 3}, test.cpu);
  const BatchNorm3d volume({.channels = 3}, test.cpu);
  StateUpdates updates;
  const auto text = [&](const auto& layer, const Tensor& x, Mode mode) {
    try {
      (void)layer.forward(x, mode, updates);
    } catch (const ArgumentError& error) {
      return error.error().text;
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(text(flat, ones(test.cpu, {2, 3, 4, 4}), Mode::eval),
            "BatchNorm1d: needs f32[n, 3] or f32[n, 3, length], got f32[2, 3, 4, 4]");
  EXPECT_EQ(text(flat, ones(test.cpu, {1, 3}), Mode::train),
            "BatchNorm1d: needs f32[n, 3] or f32[n, 3, length] with two values a channel or more, "
            "got f32[1, 3]");
  EXPECT_EQ(text(volume, ones(test.cpu, {2, 3, 4, 4}), Mode::eval),
            "BatchNorm3d: needs f32[n, 3, depth, height, width], got f32[2, 3, 4, 4]");
  EXPECT_THAT(text(flat, ones(test.cpu, {2, 3}, DType::f16), Mode::eval),
              HasSubstr("got f16[2, 3]"));
  EXPECT_THAT(text(flat, ones(test.cpu, {3}), Mode::eval), HasSubstr("got f32[3]"));
  EXPECT_EQ(flat.forward(ones(test.cpu, {0, 3}), Mode::eval).shape(), (Shape{0, 3}));
  try {
    (void)BatchNorm3d({.channels = 0}, test.cpu);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.error().text, HasSubstr("BatchNorm3d: needs 1 or more channels"));
  }
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
