#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words

template <class Model>
using Trainer = DataParallel<Model, Samples>;

std::vector<Device> cpus(const Runtime& runtime, int count) {
  std::vector<Device> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back(runtime.device("cpu:" + std::to_string(i)));
  }
  return devices;
}

struct Training {
  int world = 1;
  DType dtype = DType::f32;
  OptimizerConfig optimizer = Sgd::Config{.learning_rate = 0.05};
  std::int64_t batch = 12;
  int steps = 10;
  int micro_batches = 1;
  std::int64_t bucket_bytes = 1 << 20;
  double drop = 0;
};

template <class Model>
Model make_model(const Device& device, const Training& how) {
  Generator generator(3);
  if constexpr (std::is_same_v<Model, TinyNet>) {
    return TinyNet(device, generator, how.dtype, how.drop);
  } else {
    return Model(device, generator, how.dtype);
  }
}

struct Trained {
  std::vector<double> weights;
  std::vector<double> losses;
};

// Every world size sees equal batches.
template <class Model>
Trained train(const Training& how) {
  const Runtime runtime(cpu_devices(how.world));
  Trainer<Model> trainer(runtime,
                         make_model<Model>(runtime.device("cpu:0"), how),
                         loss_in<Model>(how.dtype),
                         {.devices = cpus(runtime, how.world),
                          .optimizer = how.optimizer,
                          .bucket_bytes = how.bucket_bytes,
                          .seed = 5});
  Trained result;
  for (int step = 0; step < how.steps; ++step) {
    const Samples batch = random_samples(how.batch, Model::kSide, static_cast<std::uint64_t>(step));
    std::vector<std::vector<Samples>> micro_batches;
    for (const Samples& part : divide(batch, how.micro_batches)) {
      micro_batches.push_back(divide(part, how.world));
    }
    const DataParallelReport report = trainer.step(std::move(micro_batches));
    EXPECT_EQ(report.step, step + 1);
    EXPECT_EQ(report.sample_count, how.batch);
    result.losses.push_back(report.loss);
  }
  EXPECT_TRUE(has_equal_replicas(trainer));
  result.weights = weights_of(trainer.take_model());
  return result;
}

TEST(DataParallel, TrainsTheCnnLikeOneDeviceInF32) {
  const Trained one = train<Cnn>({.world = 1});
  EXPECT_LE(largest_difference(train<Cnn>({.world = 2}).weights, one.weights), 1e-5);
  EXPECT_LE(largest_difference(train<Cnn>({.world = 4}).weights, one.weights), 1e-5);
}

TEST(DataParallel, TrainsTheCnnLikeOneDeviceInF64) {
  const Trained one = train<Cnn>({.world = 1, .dtype = DType::f64});
  const Trained two = train<Cnn>({.world = 2, .dtype = DType::f64});
  EXPECT_LE(largest_difference(two.weights, one.weights), 1e-12);
  EXPECT_LE(largest_difference(two.losses, one.losses), 1e-12);
  EXPECT_LE(largest_difference(train<Cnn>({.world = 4, .dtype = DType::f64}).weights, one.weights),
            1e-12);
}

TEST(DataParallel, TrainsTheCnnLikeOneDeviceWithAdamInF64) {
  const OptimizerConfig adam = Adam::Config{.learning_rate = 1e-3};
  const Trained one = train<Cnn>({.world = 1, .dtype = DType::f64, .optimizer = adam});
  const Trained two = train<Cnn>({.world = 2, .dtype = DType::f64, .optimizer = adam});
  EXPECT_LE(largest_difference(two.weights, one.weights), 1e-12);
  const Trained four = train<Cnn>({.world = 4, .dtype = DType::f64, .optimizer = adam});
  EXPECT_LE(largest_difference(four.weights, one.weights), 1e-12);
}

TEST(DataParallel, TwoRunsOfTheCnnGiveTheSameBits) {
  for (const int world : {2, 4}) {
    const Training how{.world = world, .steps = 3};
    const Trained first = train<Cnn>(how);
    const Trained second = train<Cnn>(how);
    EXPECT_EQ(first.weights, second.weights) << world << " devices";
    EXPECT_EQ(first.losses, second.losses) << world << " devices";
  }
}

TEST(DataParallel, IsTheSameAsATrainingLoopWithoutIt) {
  const Training how{.world = 1, .dtype = DType::f64};
  const Runtime runtime(cpu_devices(1));
  const Device device = runtime.device("cpu:0");
  TinyNet model = make_model<TinyNet>(device, how);
  Generator unused(0);
  const GeneratorScope scope(unused);
  Optimizer optimizer = make_optimizer(how.optimizer);
  for (int step = 0; step < how.steps; ++step) {
    const Samples batch =
        random_samples(how.batch, TinyNet::kSide, static_cast<std::uint64_t>(step));
    auto [loss, gradients] = value_and_grad(model, [&](const TinyNet& tracked) {
      return mean_loss(tracked, batch, device, how.dtype);
    });
    optimizer.step(model, std::move(gradients)).get();
  }
  EXPECT_EQ(train<TinyNet>(how).weights, weights_of(model));
}

TEST(DataParallel, TheSameSeedAndWorldGiveTheSameBits) {
  for (const int world : {2, 3, 4}) {
    const Training how{.world = world, .batch = 13, .bucket_bytes = 64, .drop = 0.5};
    const Trained first = train<TinyNet>(how);
    const Trained second = train<TinyNet>(how);
    EXPECT_EQ(first.weights, second.weights) << world << " devices";
    EXPECT_EQ(first.losses, second.losses) << world << " devices";
  }
}

TEST(DataParallel, TheSizeOfTheBucketsChangesNoBit) {
  const Trained one_bucket = train<TinyNet>({.world = 3});
  EXPECT_EQ(train<TinyNet>({.world = 3, .bucket_bytes = 1}).weights, one_bucket.weights);
  EXPECT_EQ(train<TinyNet>({.world = 3, .bucket_bytes = 100}).weights, one_bucket.weights);
}

TEST(DataParallel, UnevenAndEmptyShardsAreWeightedByTheirSamples) {
  for (const std::int64_t batch : {1, 3, 5, 7}) {  // some of 4 ranks have no samples
    const Trained one = train<TinyNet>({.world = 1, .dtype = DType::f64, .batch = batch});
    const Trained four = train<TinyNet>({.world = 4, .dtype = DType::f64, .batch = batch});
    EXPECT_LE(largest_difference(four.weights, one.weights), 1e-12) << batch << " samples";
    EXPECT_LE(largest_difference(four.losses, one.losses), 1e-12) << batch << " samples";
  }
}

TEST(DataParallel, AccumulatedMicroBatchesAreOneBigBatch) {
  const Trained big = train<TinyNet>({.world = 2, .dtype = DType::f64, .batch = 11});
  for (const int count : {2, 3, 11}) {  // with 11, one rank has no samples each time
    const Trained parts =
        train<TinyNet>({.world = 2, .dtype = DType::f64, .batch = 11, .micro_batches = count});
    EXPECT_LE(largest_difference(parts.weights, big.weights), 1e-12) << count << " micro-batches";
    EXPECT_LE(largest_difference(parts.losses, big.losses), 1e-12) << count << " micro-batches";
  }
}

TEST(DataParallel, WorksWithMoreDevicesThanCores) {
  const Trained one = train<TinyNet>({.world = 1, .dtype = DType::f64, .batch = 16});
  const Trained eight = train<TinyNet>({.world = 8, .dtype = DType::f64, .batch = 16});
  EXPECT_LE(largest_difference(eight.weights, one.weights), 1e-12);
}

struct SmallTrainer {
  explicit SmallTrainer(int world, DataParallelOptions options = {})
      : runtime(cpu_devices(world)),
        trainer(runtime, model(), loss_in<TinyNet>(DType::f32), with(options, world)) {}
  DataParallelOptions with(DataParallelOptions options, int world) const {
    options.devices = cpus(runtime, world);
    return options;
  }
  TinyNet model() const { return make_model<TinyNet>(runtime.device("cpu:0"), {}); }
  std::vector<Samples> batch(std::int64_t count) {
    return divide(random_samples(count, TinyNet::kSide, 1), trainer.world());
  }

  Runtime runtime;
  Trainer<TinyNet> trainer;
};

TEST(DataParallel, BucketsAreLentWhileTheSweepGoesOn) {
  SmallTrainer small(2, {.bucket_bytes = 1});
  small.trainer.step(small.batch(4));
  const CoordinatorStatistics figures = small.trainer.statistics();
  EXPECT_EQ(figures.steps, 1U);
  EXPECT_EQ(figures.buckets, 6U);  // one a parameter
  EXPECT_EQ(figures.early_buckets, 5U);
  EXPECT_EQ(figures.bytes, 4U * static_cast<std::uint64_t>(parameter_count(small.model())));
}

TEST(DataParallel, AccumulationReducesOnce) {
  SmallTrainer small(2);
  std::vector<std::vector<Samples>> micro_batches{small.batch(4), small.batch(4), small.batch(4)};
  small.trainer.step(std::move(micro_batches));
  EXPECT_EQ(small.trainer.statistics().buckets, 1U);
}

TEST(DataParallel, StepsThatWereAskedForRunInOrder) {
  SmallTrainer small(2);
  std::vector<Pending<DataParallelReport>> pending;
  for (int i = 0; i < 20; ++i) {
    pending.push_back(small.trainer.step_later(small.batch(6)));
  }
  double before = INFINITY;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const DataParallelReport report = std::move(pending[i]).get();
    EXPECT_EQ(report.step, static_cast<std::int64_t>(i) + 1);
    EXPECT_LT(report.loss, before);
    before = report.loss;
  }
}

TEST(DataParallel, ASnapshotIsACopyOfTheModelThatGoesOn) {
  SmallTrainer small(2);
  const TinyNet before = small.trainer.snapshot();
  const std::vector<double> weights = weights_of(before);
  small.trainer.step(small.batch(6));
  EXPECT_EQ(weights_of(before), weights);
  EXPECT_NE(weights_of(small.trainer.snapshot()), weights);
}

TEST(DataParallel, TheTakenModelTrainsOnByItself) {
  SmallTrainer small(2);
  small.trainer.step(small.batch(6));
  TinyNet model = small.trainer.take_model();
  const std::vector<double> weights = weights_of(model);
  Sgd optimizer({.learning_rate = 0.1});
  Generator generator(1);
  const GeneratorScope scope(generator);
  auto [loss, gradients] = value_and_grad(model, [&](const TinyNet& tracked) {
    return mean_loss(tracked, small.batch(6)[0], small.runtime.device("cpu:0"), DType::f32);
  });
  optimizer.step(model, std::move(gradients)).get();
  EXPECT_NE(weights_of(model), weights);
  EXPECT_THROW(small.trainer.step(small.batch(6)), ArgumentError);
  EXPECT_THROW(static_cast<void>(small.trainer.take_model()), Exception);
}

TEST(DataParallel, ParametersThatTheLossDoesNotTouchKeepTheirValues) {
  SmallTrainer small(2);
  const std::vector<float> before = small.trainer.snapshot().unused.weight.to_vector<float>();
  small.trainer.step(small.batch(6));
  EXPECT_EQ(small.trainer.snapshot().unused.weight.to_vector<float>(), before);
}

// The second of two steps uses the new rate: w0 - 0.25·g0, then - rate·g1.
TEST(DataParallel, TheLearningRateCanBeChanged) {
  const auto weights_with = [](double rate) {
    SmallTrainer small(2, {.optimizer = Sgd::Config{.learning_rate = 0.25}});
    small.trainer.step(small.batch(6));
    small.trainer.set_learning_rate(rate);
    small.trainer.step(small.batch(6));
    EXPECT_TRUE(has_equal_replicas(small.trainer));
    return weights_of(small.trainer.snapshot());
  };
  const std::vector<double> still = weights_with(0);
  const std::vector<double> half = weights_with(0.125);
  const std::vector<double> whole = weights_with(0.25);
  EXPECT_GT(largest_difference(still, whole), 1e-3);
  for (std::size_t i = 0; i < still.size(); ++i) {
    EXPECT_NEAR(half[i], (still[i] + whole[i]) / 2, 1e-6) << i;
  }
}

TEST(DataParallel, RefusesWhatMakesNoSense) {
  SmallTrainer small(2);
  try {
    small.trainer.step(divide(random_samples(6, TinyNet::kSide, 1), 3));
    FAIL() << "three shards for two ranks";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("3 shards for 2 devices"),
                                 ::testing::HasSubstr("data_parallel_test.cpp:")));
  }
  EXPECT_THROW(small.trainer.step(small.batch(0)), ArgumentError);
  EXPECT_THROW(small.trainer.step(std::vector<std::vector<Samples>>{}), ArgumentError);
  try {
    small.trainer.step({});
    FAIL() << "a step without shards";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(),
                ::testing::AllOf(::testing::HasSubstr("0 shards for 2 devices"),
                                 ::testing::HasSubstr("data_parallel_test.cpp:")));
  }
  EXPECT_THROW(static_cast<void>(small.trainer.step_later({})), ArgumentError);
  const auto open = [&](DataParallelOptions options) {
    const Trainer<TinyNet> trainer(
        small.runtime, small.model(), loss_in<TinyNet>(DType::f32), std::move(options));
  };
  const std::vector<Device> one = cpus(small.runtime, 1);
  for (const DataParallelOptions& options :
       {DataParallelOptions{},
        DataParallelOptions{.devices = {Device()}},
        DataParallelOptions{.devices = one, .bucket_bytes = 0},
        DataParallelOptions{.devices = one, .deadline = std::chrono::nanoseconds::zero()},
        DataParallelOptions{.devices = one, .hang_limit = std::chrono::nanoseconds::zero()},
        DataParallelOptions{.devices = one, .on_loss = static_cast<DeviceLossPolicy>(7)},
        DataParallelOptions{.devices = one, .spares = one}}) {
    try {
      open(options);
      ADD_FAILURE() << "options that make no sense";
    } catch (const ArgumentError& error) {
      EXPECT_THAT(error.error().location.file, ::testing::EndsWith("data_parallel_test.cpp"))
          << error.what();
    }
  }
}

}  // namespace
}  // namespace hearth
