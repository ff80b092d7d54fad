// Mixed precision in DataParallel and in a Trainer: types, the loss scale, equal decisions of all
// ranks, resumed runs, and convergence.
#include <hearth/modules/checkpoint.hpp>
#include <hearth/modules/precision.hpp>
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::Each;
using ::testing::HasSubstr;

/// A loss whose factor a test sets for single ranks. The sample's pixels are cast by the function,
/// as DataParallel requires.
struct Factors {
  std::shared_ptr<std::vector<std::atomic<double>>> by_rank =
      std::make_shared<std::vector<std::atomic<double>>>(3);

  Factors() { set(1); }
  void set(double all) {
    for (std::atomic<double>& each : *by_rank) {
      each.store(all);
    }
  }
  void set(std::size_t rank, double factor) { by_rank->at(rank).store(factor); }
  [[nodiscard]] auto loss() const {
    return [by_rank = by_rank](const NormNet& model, Samples& shard, WorkerContext& context) {
      const Tensor pixels =
          Tensor::from(context.device, shard.pixels, {shard.size, 1, shard.side, shard.side});
      const Tensor classes = Tensor::from(context.device, shard.classes, {shard.size});
      const Tensor outputs = model.forward(pixels, Mode::train).to(DType::f32);
      return cross_entropy(outputs, classes) *
             by_rank->at(static_cast<std::size_t>(context.rank)).load();
    };
  }
};

using Steps = DataParallel<NormNet, Samples>;

Samples samples_of(std::uint64_t seed) {
  return random_samples(9, 28, seed);
}

struct MixedRun {
  MixedRun(int world, const Precision& precision, DataParallelOptions options = {})
      : runtime(cpu_devices(world)) {
    options.devices = runtime.devices();
    options.precision = precision;
    steps = std::make_unique<Steps>(
        runtime, NormNet(runtime.device(), 0), factors.loss(), std::move(options));
  }
  DataParallelReport step(std::uint64_t seed) const {
    return steps->step(divide(samples_of(seed), steps->world()));
  }
  [[nodiscard]] std::vector<double> weights() const { return weights_of(steps->snapshot()); }

  Runtime runtime;
  Factors factors;
  std::unique_ptr<Steps> steps;
};

constexpr double kTooLarge = 1e38;

TEST(MixedSteps, AnOverflowOnOneRankSkipsTheStepOnAll) {
  for (const int world : {1, 2, 3}) {
    const MixedRun plain(world, {.compute = DType::f16});
    MixedRun run(world, {.compute = DType::f16});
    EXPECT_EQ(run.step(0).scale.loss_scale, 65536);
    plain.step(0);
    const std::vector<double> before = run.weights();
    run.factors.set(static_cast<std::size_t>(world) - 1, kTooLarge);
    const DataParallelReport skipped = run.step(1);
    EXPECT_TRUE(skipped.scale.is_skipped);
    EXPECT_EQ(skipped.scale.loss_scale, 65536);
    EXPECT_EQ(run.weights(), before) << "also the Buffers";
    EXPECT_TRUE(has_equal_replicas(*run.steps));
    run.factors.set(1);
    const DataParallelReport next = run.step(2);
    EXPECT_FALSE(next.scale.is_skipped);
    EXPECT_EQ(next.scale.loss_scale, 32768);
    EXPECT_NE(run.weights(), before);
    EXPECT_TRUE(has_equal_replicas(*run.steps));
    plain.step(2);
    EXPECT_LE(largest_difference(run.weights(), plain.weights()), 1e-3) << "that step alone";
  }
}

TEST(MixedSteps, AScaleThatIsAPowerOfTwoChangesNoBit) {
  const DataParallelOptions clipped{.clip = {.max_norm = 0.5}};
  for (const int world : {1, 2}) {
    const MixedRun plain(world, {}, clipped);
    MixedRun run(world, {.loss_scaling = LossScaling{}}, clipped);
    for (std::uint64_t i = 0; i < 4; ++i) {
      if (i == 2) {
        run.factors.set(0, kTooLarge);
        EXPECT_TRUE(run.step(9).scale.is_skipped);
        run.factors.set(1);
      }
      EXPECT_EQ(run.step(i).loss, plain.step(i).loss);
    }
    EXPECT_EQ(run.weights(), plain.weights());
    EXPECT_EQ(plain.step(5).scale.loss_scale, 1) << "none";
  }
}

TEST(MixedSteps, MicroBatchesAreOneStep) {
  MixedRun run(2, {.compute = DType::f16});
  const auto step = [&](double factor) {
    run.factors.set(factor);
    std::vector<std::vector<Samples>> batches;
    batches.push_back(divide(samples_of(1), 2));
    batches.push_back(divide(samples_of(2), 2));
    return run.steps->step(std::move(batches));
  };
  EXPECT_FALSE(step(1).scale.is_skipped);
  const std::vector<double> before = run.weights();
  EXPECT_TRUE(step(kTooLarge).scale.is_skipped);
  EXPECT_EQ(run.weights(), before);
  EXPECT_FALSE(step(1).scale.is_skipped);
  EXPECT_NE(run.weights(), before);
  EXPECT_TRUE(has_equal_replicas(*run.steps));
}

TEST(MixedSteps, ALossThatIsNotFiniteSkipsTheStepWithAScaleAndFailsItWithout) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  MixedRun run(2, {.compute = DType::f16});
  const std::vector<double> before = run.weights();
  run.factors.set(1, nan);
  EXPECT_TRUE(run.step(0).scale.is_skipped);
  EXPECT_EQ(run.weights(), before);
  MixedRun other(2, {.compute = DType::bf16});
  other.factors.set(1, nan);
  EXPECT_THROW(other.step(0), DeviceError);
}

TEST(MixedSteps, GradientsCanBeExchangedInSixteenBits) {
  for (const DType wire : {DType::bf16, DType::f16}) {
    const MixedRun plain(2, {});
    const MixedRun run(2, {.gradients = wire});
    const MixedRun again(2, {.gradients = wire});
    for (std::uint64_t i = 0; i < 3; ++i) {
      plain.step(i);
      run.step(i);
      again.step(i);
    }
    const double difference = largest_difference(run.weights(), plain.weights());
    EXPECT_GT(difference, 0) << "it is rounded";
    EXPECT_LE(difference, 0.01);
    EXPECT_TRUE(has_equal_replicas(*run.steps));
    EXPECT_EQ(run.weights(), again.weights());
    const auto bytes = [](const MixedRun& of) { return of.steps->statistics().bytes; };
    EXPECT_LT(bytes(run), 0.6 * static_cast<double>(bytes(plain)));
    EXPECT_EQ(run.steps->snapshot().head.weight.dtype(), DType::f32);
  }
  const MixedRun alone(1, {});
  const MixedRun narrow(1, {.gradients = DType::bf16});
  alone.step(0);
  narrow.step(0);
  EXPECT_EQ(narrow.weights(), alone.weights()) << "a lone rank exchanges nothing";
}

TEST(MixedSteps, ARankThatIsMendedGetsTheScale) {
  MixedRun run(2, {.compute = DType::f16}, {.on_loss = DeviceLossPolicy::replace});
  run.step(0);
  run.factors.set(kTooLarge);
  EXPECT_TRUE(run.step(1).scale.is_skipped);
  run.factors.set(1);
  run.runtime.devices()[1].restart(std::chrono::seconds(10));
  EXPECT_EQ(run.step(2).scale.loss_scale, 32768);
  EXPECT_TRUE(has_equal_replicas(*run.steps));
  for (std::uint64_t i = 3; i < 6; ++i) {
    EXPECT_FALSE(run.step(i).scale.is_skipped);
  }
  EXPECT_TRUE(has_equal_replicas(*run.steps)) << "the ranks count alike";
}

TEST(MixedSteps, ASkippedStepDoesNotMoveTheAverage) {
  MixedRun run(1, {.compute = DType::f16}, {.average_decay = 0.5});
  run.step(0);
  const std::vector<double> before = weights_of(run.steps->averaged());
  run.factors.set(kTooLarge);
  run.step(1);
  run.step(2);
  EXPECT_EQ(weights_of(run.steps->averaged()), before);
  run.factors.set(1);
  run.step(3);
  EXPECT_NE(weights_of(run.steps->averaged()), before);
}

TEST(MixedSteps, RefuseOtherTypes) {
  const auto text_of = [](const Precision& precision) {
    try {
      const MixedRun run(1, precision);
    } catch (const DtypeError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(text_of({.compute = DType::i32}),
              HasSubstr("DataParallel: precision.compute is i32, but must be f32, bf16 or f16"));
  EXPECT_THAT(text_of({.gradients = DType::f64}), HasSubstr("precision.gradients is f64"));
}

/// The validation loss of a short run.
double validation_loss(const Digits& digits, const Precision& precision, std::uint64_t seed) {
  TrainerOptions options = digits.options;
  options.epochs = 12;
  options.seed = seed;
  options.precision = precision;
  const TrainingResult result = digits.fit<NormNet>(options);
  return result.history.epochs.back().validation_loss.value();
}

TEST(MixedTrainer, ReachesTheLossOfF32WithinTheSpreadOfThreeSeeds) {
  const Digits digits;
  std::vector<double> losses;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    losses.push_back(validation_loss(digits, {}, seed));
  }
  const auto [least, most] = std::ranges::minmax(losses);
  const double spread = most - least;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double loss = validation_loss(digits, {.compute = dtype}, 1);
    EXPECT_GT(loss, least - spread) << name(dtype);
    EXPECT_LT(loss, most + spread) << name(dtype);
  }
}

TEST(MixedTrainer, ComputesInSixteenBitsAndTheLossInF32) {
  const Digits digits;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    TrainerOptions options = digits.options;
    options.epochs = 1;
    options.precision = {.compute = dtype};
    options.metrics = {accuracy_metric()};
    const auto seen = std::make_shared<std::atomic<int>>(0);
    const auto whole = [seen, dtype](
                           const DigitNet& model, const Batch& batch, const LossContext& context) {
      EXPECT_EQ(model.inner.weight.dtype(), dtype);
      EXPECT_EQ(batch.inputs.dtype(), dtype);
      EXPECT_EQ(batch.targets.dtype(), DType::i64);
      seen->fetch_or(context.mode == Mode::train ? 1 : 2);
      const Tensor outputs = model.forward(batch.inputs, context.mode);
      EXPECT_EQ(outputs.dtype(), dtype);
      return LossOutputs{.loss = cross_entropy(outputs.to(DType::f32), batch.targets),
                         .outputs = outputs,
                         .targets = batch.targets};
    };
    Trainer<DigitNet> trainer(digits.runtime, DigitNet(options.devices.front()), whole, options);
    trainer.fit(digits.train, digits.test);
    EXPECT_EQ(seen->load(), 3) << "training and validation";
    EXPECT_EQ(trainer.model().inner.weight.dtype(), DType::f32);
    const auto plain = [](const Tensor& outputs, const Tensor& targets) {
      EXPECT_EQ(outputs.dtype(), DType::f32);
      return cross_entropy(outputs, targets);
    };
    Trainer<DigitNet> other(digits.runtime, DigitNet(options.devices.front()), plain, options);
    other.fit(digits.train, digits.test);
  }
}

/// A run whose first scales overflow in f16, so that it skips some steps.
struct OverflowingRun {
  explicit OverflowingRun(const std::filesystem::path& folder, int world = 2) : digits(world) {
    options = digits.options;
    options.folder = folder;
    options.precision = {.compute = DType::f16,
                         .loss_scaling = LossScaling{.initial = 0x1p32, .growth_interval = 4}};
    options.callbacks = {{.on_step = [this](const TrainingStep& step, RunControl& control) {
      scales.push_back(step.scale.loss_scale);
      control.stop = step.step == stop_at;
    }}};
  }
  TrainingResult fit() const { return digits.fit<NormNet>(options); }

  Digits digits;
  TrainerOptions options;
  std::vector<double> scales;
  std::int64_t stop_at = -1;
};

TEST(MixedTrainer, SkipsStepsUntilTheScaleFitsAndResumesToTheSameBits) {
  const TemporaryFolder folder;
  OverflowingRun whole(folder.path() / "whole");
  const TrainingResult wanted = whole.fit();
  EXPECT_GT(wanted.skipped_steps, 3);
  EXPECT_LT(wanted.skipped_steps, 18);
  for (const std::int64_t stop_at : {3, 12}) {
    const std::filesystem::path path = folder.path() / std::to_string(stop_at);
    OverflowingRun run(path);
    run.stop_at = stop_at;
    const TrainingResult first = run.fit();
    EXPECT_EQ(first.reason, EndReason::stopped);
    run.stop_at = -1;
    run.options.resume = true;
    const TrainingResult rest = run.fit();
    EXPECT_EQ(run.scales, whole.scales);
    EXPECT_EQ(first.skipped_steps + rest.skipped_steps, wanted.skipped_steps);
    EXPECT_EQ(text_of(path / "model.safetensors"),
              text_of(folder.path() / "whole" / "model.safetensors"));
  }
}

TEST(MixedTrainer, RefusesToResumeWithAnotherKindOfScaling) {
  const TemporaryFolder folder;
  OverflowingRun run(folder.path(), 1);
  run.options.epochs = 1;
  run.fit();
  run.options.resume = true;
  run.options.precision = {.compute = DType::bf16};
  try {
    run.fit();
    FAIL() << "resumed";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("scaled its loss, this one does not"));
  }
}

TEST(MixedTrainer, EndsWhenNoScaleHelps) {
  const Digits digits;
  TrainerOptions options = digits.options;
  options.epochs = 10;
  options.precision = {.compute = DType::f16};
  const auto infinite = [](const Tensor& outputs, const Tensor& targets) {
    return cross_entropy(outputs, targets) * std::numeric_limits<double>::infinity();
  };
  Trainer<DigitNet> trainer(digits.runtime, DigitNet(options.devices.front()), infinite, options);
  try {
    trainer.fit(digits.train);
    FAIL() << "it ended";
  } catch (const DeviceError& error) {
    EXPECT_EQ(error.error().code, ErrorCode::non_finite);
    EXPECT_THAT(error.what(), HasSubstr("50 steps in a row were skipped"));
  }
}

}  // namespace
}  // namespace hearth
