// Models with running statistics (BatchNorm2d) under DataParallel and a Trainer, which commit the
// statistics without a line of the program.
#include <hearth/modules/batch_norm2d.hpp>
#include <hearth/modules/checkpoint.hpp>
#include <hearth/parallel/data_parallel.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words

/// For inputs of [n, 1, 4, 4]: one normalised channel, and a Buffer that no op changes.
struct Normed {
  BatchNorm2d norm;
  Linear head;
  Buffer table;

  explicit Normed(const Device& device) : Normed(device, Generator(2)) {}
  Normed(const Device& device, Generator generator)
      : norm({.channels = 1}, device, DType::f64),
        head({.in = 16, .out = 10}, device, generator, DType::f64),
        table(full(device, {3}, 7.0, DType::f64)) {}
  [[nodiscard]] Tensor forward(const Tensor& x) const {
    return head.forward(flatten(norm.forward(x, Mode::train), 1));
  }
  HEARTH_MODULE(Normed, norm, head, table)
};

using Steps = DataParallel<Normed, Samples>;

Samples samples_of(std::int64_t count, std::uint64_t seed) {
  return random_samples(count, 4, seed);
}

/// Devices that answer asynchronously, as a GPU does.
RuntimeOptions late_devices(int count) {
  RuntimeOptions options;
  for (int i = 0; i < count; ++i) {
    options.devices.push_back({.name = "sim:" + std::to_string(i),
                               .sim_schedule = SimSchedule{.reorder_seed = 3, .cost_seed = 5}});
  }
  return options;
}

struct Normals {
  explicit Normals(int world) : Normals(cpu_devices(world)) {}
  explicit Normals(const RuntimeOptions& options)
      : runtime(options),
        steps(runtime,
              Normed(runtime.device()),
              loss_in<Normed>(DType::f64),
              {.devices = runtime.devices(), .optimizer = Sgd::Config{.learning_rate = 0.1}}) {}
  [[nodiscard]] std::vector<double> statistics() {
    const Normed model = steps.snapshot();
    return {model.norm.running_mean.item(), model.norm.running_variance.item()};
  }

  Runtime runtime;
  Steps steps;
};

/// These statistics after one pass over each part in a hand-written loop.
std::vector<double> moved(const std::vector<double>& from, const std::vector<Samples>& parts) {
  std::vector<double> to = from;
  double all = 0;
  for (const Samples& part : parts) {
    all += static_cast<double>(part.size);
  }
  for (const Samples& part : parts) {
    const auto count = static_cast<double>(part.pixels.size());
    double mean = 0;
    double variance = 0;
    for (const double pixel : part.pixels) {
      mean += pixel / count;
    }
    for (const double pixel : part.pixels) {
      variance += (pixel - mean) * (pixel - mean) / (count - 1);
    }
    if (part.size > 0) {
      const double share = 0.1 * static_cast<double>(part.size) / all;
      to[0] += (mean - from[0]) * share;
      to[1] += (variance - from[1]) * share;
    }
  }
  return to;
}

TEST(RunningStatistics, MoveByTheMeanOfTheRanksMoves) {
  for (const int world : {1, 2, 3}) {
    Normals run(world);
    std::vector<double> wanted = run.statistics();
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::vector<Samples> parts = divide(samples_of(7, step), world);
      wanted = moved(wanted, parts);
      run.steps.step(parts);
    }
    EXPECT_LE(largest_difference(run.statistics(), wanted), 1e-12) << world;
    EXPECT_TRUE(has_equal_replicas(run.steps)) << world;
    EXPECT_EQ(run.steps.snapshot().table.to_vector<double>(), std::vector<double>(3, 7.0));
  }
}

TEST(RunningStatistics, MoveOnDevicesThatAnswerLater) {
  Normals run(late_devices(2));
  std::vector<double> wanted = run.statistics();
  for (std::uint64_t step = 0; step < 4; ++step) {
    std::vector<Samples> parts = divide(samples_of(7, step), 2);
    if (step == 2) {
      parts[0].pixels[0] = std::numeric_limits<double>::quiet_NaN();
      EXPECT_THROW(run.steps.step(parts), Exception);
    } else {
      wanted = moved(wanted, parts);
      run.steps.step(parts);
    }
    EXPECT_LE(largest_difference(run.statistics(), wanted), 1e-12) << step;
  }
  EXPECT_TRUE(has_equal_replicas(run.steps));
}

TEST(RunningStatistics, ARankWithoutSamplesHasNoPartInThem) {
  Normals run(2);
  const std::vector<Samples> parts = {samples_of(5, 1), samples_of(0, 1)};
  const std::vector<double> wanted = moved(run.statistics(), parts);
  run.steps.step(parts);
  EXPECT_LE(largest_difference(run.statistics(), wanted), 1e-12);
  EXPECT_TRUE(has_equal_replicas(run.steps));
}

TEST(RunningStatistics, MicroBatchesMoveThemOneAfterTheOther) {
  Normals run(1);
  std::vector<double> wanted = run.statistics();
  std::vector<std::vector<Samples>> batches;
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    batches.push_back({samples_of(4, seed)});
    wanted = moved(wanted, batches.back());
  }
  run.steps.step(batches);
  EXPECT_LE(largest_difference(run.statistics(), wanted), 1e-12);
}

TEST(RunningStatistics, AStepThatDoesNotHappenLeavesThem) {
  Normals run(2);
  run.steps.step(divide(samples_of(6, 1), 2));
  const std::vector<double> before = run.statistics();
  std::vector<Samples> parts = divide(samples_of(6, 2), 2);
  parts[1].pixels[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(run.steps.step(parts), Exception);
  EXPECT_EQ(run.statistics(), before);
  EXPECT_TRUE(has_equal_replicas(run.steps));
  run.steps.step(divide(samples_of(6, 3), 2));
  EXPECT_NE(run.statistics(), before);
}

// With the initial statistics the model would answer by chance.
TEST(RunningStatistics, ATrainerLearnsThemAndSavesThem) {
  for (const int world : {1, 2}) {
    const TemporaryFolder folder;
    const Digits digits(world);
    TrainerOptions options = digits.options;
    options.epochs = 12;
    options.optimizer = Adam::Config{.learning_rate = 1e-2};
    options.metrics = {accuracy_metric()};
    options.folder = folder.path();
    Trainer<NormNet> trainer = digits.trainer<NormNet>(options);
    const TrainingResult result = trainer.fit(digits.train, digits.train);
    EXPECT_GT(result.history.epochs.back().metrics[0], 0.9) << world;
    NormNet loaded(options.devices.front());
    const std::vector<float> at_start = loaded.norm.running_mean.to_vector<float>();
    load_weights(loaded, options.folder);
    EXPECT_NE(loaded.norm.running_mean.to_vector<float>(), at_start);
    EXPECT_EQ(weights_of(loaded), weights_of(trainer.model()));
    EXPECT_TRUE(has_equal_replicas(trainer.parallel()));
  }
}

}  // namespace
}  // namespace hearth
