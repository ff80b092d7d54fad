// Losses that are means over other counts than samples: one device, several devices, and
// accumulated batches train alike.
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/loss_sum.hpp>

#include "digits_run.hpp"

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

constexpr std::int64_t kIgnored = 3;

std::vector<double> weights_of_classes() {
  return {1, 2, 0.5, 9, 1, 3, 1, 0.25, 1, 1};
}

CrossEntropyOptions options_on(const Device& device) {
  return {.ignore_index = kIgnored,
          .class_weights = Tensor::from(device, weights_of_classes(), {10}),
          .label_smoothing = 0.1};
}

// In f64, because the gradients' bits differ only by the order of sums.
TEST(CrossEntropySum, ItsPartsAreThoseOfTheMean) {
  const Runtime runtime;
  const Device device = runtime.device();
  Generator generator(1);
  const Tensor logits = random_normal(device, {6, 10}, generator).to(DType::f64);
  const Tensor targets = Tensor::from<std::int64_t>(device, {0, 3, 1, 9, 3, 5}, {6});
  for (const CrossEntropyOptions& options :
       {CrossEntropyOptions(), CrossEntropyOptions{.ignore_index = 3}, options_on(device)}) {
    const LossSum parts = cross_entropy_sum(logits, targets, options);
    EXPECT_NEAR(parts.sum.item() / parts.weight.item(),
                cross_entropy(logits, targets, options).item(),
                1e-12);
  }
  EXPECT_EQ(cross_entropy_sum(logits, targets).weight.item(), 6);
  EXPECT_EQ(cross_entropy_sum(logits, targets, {.ignore_index = 3}).weight.item(), 4);
}

TEST(CrossEntropySum, OfNothingIsZeroWithZeroGradients) {
  const Runtime runtime;
  const Device device = runtime.device();
  const Tensor logits = ones(device, {2, 10});
  const Tensor targets = Tensor::from<std::int64_t>(device, {3, 3}, {2});
  const auto sum_of = [&](std::span<const Tensor> x) {
    return cross_entropy_sum(x[0], targets, {.ignore_index = 3}).sum;
  };
  EXPECT_EQ(sum_of(std::vector<Tensor>{logits}).item(), 0);
  const Tensor gradient = grad(sum_of, std::vector<Tensor>{logits})[0];
  EXPECT_EQ(gradient.to_vector<float>(), std::vector<float>(20, 0.0F));
}

/// Sgd on TinyNet in f64, with a loss that ignores a class and weights the others.
template <class Loss>
struct WeightedRun {
  using Steps = DataParallel<TinyNet, Samples>;
  WeightedRun(int world, Loss loss)
      : runtime(cpu_devices(world)), steps(runtime, model(), std::move(loss), [&] {
          DataParallelOptions options{.devices = runtime.devices("cpu"),
                                      .optimizer = Sgd::Config{.learning_rate = 0.5}};
          options.devices.resize(static_cast<std::size_t>(world));
          return options;
        }()) {}
  [[nodiscard]] TinyNet model() const {
    Generator generator(3);
    return TinyNet(runtime.device("cpu:0"), generator, DType::f64);
  }

  Runtime runtime;
  Steps steps;
};

const auto kWeighted = [](const TinyNet& model, Samples& samples, WorkerContext& context) {
  const Tensor pixels =
      Tensor::from(context.device, samples.pixels, {samples.size, samples.side, samples.side});
  const Tensor classes = Tensor::from(context.device, samples.classes, {samples.size});
  return cross_entropy_sum(model.forward(pixels), classes, options_on(context.device));
};

TEST(LossWeight, DevicesAndMicroBatchesMakeNoDifference) {
  Samples batch = random_samples(12, TinyNet::kSide, 5);
  // One part in which no sample counts, and one in which few do.
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U, 6U}) {
    batch.classes[i] = kIgnored;
  }
  WeightedRun one(1, kWeighted);
  const std::vector<double> before = weights_of(one.steps.snapshot());
  const DataParallelReport wanted = one.steps.step(divide(batch, 1));
  const std::vector<double> weights = weights_of(one.steps.snapshot());
  EXPECT_NE(weights, before);
  // The plain mean of the whole batch.
  const TinyNet model = one.model();
  const Device device = one.runtime.device("cpu:0");
  const Tensor logits =
      model.forward(Tensor::from(device, batch.pixels, {12, batch.side, batch.side}));
  const double mean =
      cross_entropy(logits, Tensor::from(device, batch.classes, {12}), options_on(device)).item();
  EXPECT_NEAR(wanted.loss, mean, 1e-12);
  for (const int world : {2, 3}) {
    WeightedRun many(world, kWeighted);
    const DataParallelReport report = many.steps.step(divide(batch, world));
    EXPECT_LE(largest_difference(weights_of(many.steps.snapshot()), weights), 1e-12) << world;
    EXPECT_NEAR(report.loss, wanted.loss, 1e-12);
    EXPECT_NEAR(report.weight, wanted.weight, 1e-9);
    EXPECT_TRUE(has_equal_replicas(many.steps));
  }
  WeightedRun in_parts(2, kWeighted);
  in_parts.steps.step(
      std::vector<std::vector<Samples>>{divide(cut(batch, 0, 5), 2), divide(cut(batch, 5, 12), 2)});
  EXPECT_LE(largest_difference(weights_of(in_parts.steps.snapshot()), weights), 1e-12);
  WeightedRun uneven(2, kWeighted);
  uneven.steps.step({batch, cut(batch, 0, 0)});
  EXPECT_LE(largest_difference(weights_of(uneven.steps.snapshot()), weights), 1e-12);
  EXPECT_TRUE(has_equal_replicas(uneven.steps));
}

template <class Loss>
void expect_failed_step(Loss loss, const Samples& batch, const char* text) {
  WeightedRun run(2, loss);
  const std::vector<double> before = weights_of(run.steps.snapshot());
  try {
    run.steps.step(divide(batch, 2));
    ADD_FAILURE() << text;
  } catch (const Exception& error) {
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
  EXPECT_EQ(weights_of(run.steps.snapshot()), before);
  EXPECT_TRUE(has_equal_replicas(run.steps));
}

TEST(LossWeight, AStepOfWhichNothingCountsDoesNotHappen) {
  Samples batch = random_samples(4, TinyNet::kSide, 5);
  batch.classes.assign(4, kIgnored);
  expect_failed_step(kWeighted, batch, "the weights of the loss add up to 0");
}

TEST(LossWeight, AllRanksHaveOneOrNone) {
  const auto loss = [](const TinyNet& model, Samples& samples, WorkerContext& context) {
    LossSum parts = kWeighted(model, samples, context);
    return LossOutputs{.loss = std::move(parts.sum),
                       .weight = context.rank == 0 ? parts.weight : Tensor()};
  };
  expect_failed_step(loss, random_samples(4, TinyNet::kSide, 5), "has a weight on some ranks");
}

TEST(LossWeight, IsOneNumber) {
  const auto loss = [](const TinyNet& model, Samples& samples, WorkerContext& context) {
    LossSum parts = kWeighted(model, samples, context);
    return LossSum{.sum = parts.sum, .weight = ones(context.device, {2})};
  };
  expect_failed_step(loss, random_samples(4, TinyNet::kSide, 5), "is one number, not f32[2]");
}

// A loss that may have a weight but has none trains to the bits of a loss that cannot have one.
TEST(LossWeight, WithoutOneTheBitsAreThoseOfAMean) {
  const auto mean = loss_in<TinyNet>(DType::f64);
  const auto outputs = [mean](const TinyNet& model, Samples& samples, WorkerContext& context) {
    return LossOutputs{.loss = mean(model, samples, context)};
  };
  WeightedRun plain(2, mean);
  WeightedRun wrapped(2, outputs);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const Samples batch = random_samples(7, TinyNet::kSide, step);
    const std::vector<Samples> parts = {cut(batch, 0, step == 1 ? 7 : 4),
                                        cut(batch, step == 1 ? 7 : 4, 7)};
    EXPECT_EQ(plain.steps.step(parts).loss, wrapped.steps.step(parts).loss);
  }
  EXPECT_EQ(weights_of(plain.steps.snapshot()), weights_of(wrapped.steps.snapshot()));
  EXPECT_TRUE(has_equal_replicas(wrapped.steps));
}

// In training and in evaluation.
TEST(LossWeight, ATrainersCrossEntropyLossHasIt) {
  expect_division_changes_nothing(
      [](const Device& device) { return CrossEntropyLoss(options_on(device)); },
      [](TrainerOptions& options) { options.metrics = {accuracy_metric()}; });
}

}  // namespace
}  // namespace hearth
