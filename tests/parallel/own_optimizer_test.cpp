// Optimizers of a rule, Hearth's and a program's own, in DataParallel and in a Trainer.
#include <hearth/modules/adadelta.hpp>
#include <hearth/modules/lamb.hpp>
#include <hearth/modules/lion.hpp>
#include <hearth/modules/muon.hpp>
#include <hearth/modules/radam.hpp>
#include <hearth/modules/rms_prop.hpp>
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"
#include "training_support.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

/// A program's own: the momentum of normalised gradients, smaller with each update.
struct NormalisedRule {
  double learning_rate = 0.05;
  double weight_decay = 1e-3;
  double momentum = 0.8;
  std::vector<ParameterGroup> groups = {};

  static std::string name() { return "Normalised"; }
  [[nodiscard]] UpdateFormula formula() const {
    return {.slots = {"velocity"},
            .update =
                [own = momentum](const UpdateOperands& o) {
                  const Tensor v = own * o.state[0] + o.gradient * o.inputs[0];
                  return std::vector<Tensor>{
                      o.parameter - o.rate * (o.factors[0] * v + o.weight_decay * o.parameter), v};
                },
            .factors =
                [](const Tensor& update_number) {
                  return std::vector<Tensor>{1.0 / sqrt(update_number)};
                },
            .inputs =
                [](const UpdateOperands& o) {
                  return std::vector<Tensor>{1.0 / (sqrt(sum(square(o.gradient))) + 1e-6)};
                }};
  }
  [[nodiscard]] std::vector<OptimizerSetting> settings() const {
    return {{.name = "momentum", .value = momentum, .below = 1}};
  }
};

std::vector<OptimizerConfig> rules() {
  return {NormalisedRule{},
          RmsProp::Config{.learning_rate = 1e-2, .centered = true},
          Adadelta::Config{},
          RAdam::Config{.learning_rate = 1e-2},
          Lion::Config{.learning_rate = 1e-3, .weight_decay = 0.1},
          Lamb::Config{.learning_rate = 1e-2},
          Muon::Config{.learning_rate = 1e-2, .adamw = {"second.*"}}};
}

std::string name_of(const OptimizerConfig& config) {
  return std::string(make_optimizer(config).kind());
}

using TinyTraining = DataParallel<TinyNet, Samples>;

std::unique_ptr<TinyTraining> tiny_training(const Runtime& runtime,
                                            int world,
                                            const OptimizerConfig& optimizer) {
  Generator generator(3);
  std::vector<Device> devices;
  for (int i = 0; i < world; ++i) {
    devices.push_back(runtime.device("cpu:" + std::to_string(i)));
  }
  return std::make_unique<TinyTraining>(
      runtime,
      TinyNet(devices.front(), generator, DType::f64),
      loss_in<TinyNet>(DType::f64),
      DataParallelOptions{
          .devices = devices, .optimizer = optimizer, .clip = {.max_norm = 1}, .seed = 5});
}

void step_tiny(TinyTraining& training, int world, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    const Samples batch = random_samples(12, TinyNet::kSide, static_cast<std::uint64_t>(step));
    static_cast<void>(training.step(divide(batch, world)));
  }
}

TEST(OwnOptimizer, TrainsOnSeveralDevicesAsOnOneAndInALoop) {
  for (const OptimizerConfig& config : rules()) {
    std::vector<std::vector<double>> weights;
    for (const int world : {1, 2, 3}) {
      const Runtime runtime(cpu_devices(world));
      const auto training = tiny_training(runtime, world, config);
      step_tiny(*training, world, 0, 6);
      EXPECT_TRUE(has_equal_replicas(*training)) << name_of(config);
      weights.push_back(weights_of(training->take_model()));
    }
    EXPECT_LE(largest_difference(weights[1], weights[0]), 1e-9) << name_of(config);
    EXPECT_LE(largest_difference(weights[2], weights[0]), 1e-9) << name_of(config);

    const Runtime runtime(cpu_devices(1));
    const Device device = runtime.device("cpu:0");
    Generator generator(3);
    TinyNet model(device, generator, DType::f64);
    Generator unused(0);
    const GeneratorScope scope(unused);
    Optimizer optimizer = make_optimizer(config);
    for (int step = 0; step < 6; ++step) {
      const Samples batch = random_samples(12, TinyNet::kSide, static_cast<std::uint64_t>(step));
      auto [loss, gradients] = value_and_grad(model, [&](const TinyNet& tracked) {
        return mean_loss(tracked, batch, device, DType::f64);
      });
      clip(gradients, {.max_norm = 1});
      optimizer.step(model, std::move(gradients)).get();
    }
    EXPECT_EQ(weights_of(model), weights[0]) << name_of(config);
  }
}

TEST(OwnOptimizer, ASavedRunGoesOnWithTheSameBits) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "run.safetensors";
  for (const OptimizerConfig& config : rules()) {
    const Runtime runtime(cpu_devices(2));
    const auto whole = tiny_training(runtime, 2, config);
    step_tiny(*whole, 2, 0, 3);
    whole->save(file, {});
    step_tiny(*whole, 2, 3, 6);
    const auto resumed = tiny_training(runtime, 2, config);
    static_cast<void>(resumed->load(file));
    step_tiny(*resumed, 2, 3, 6);
    EXPECT_EQ(weights_of(resumed->take_model()), weights_of(whole->take_model()))
        << name_of(config);
  }
}

TEST(OwnOptimizer, TrainsInATrainerByItsScheduleAndResumes) {
  for (const OptimizerConfig& config : rules()) {
    const TemporaryFolder folder;
    Digits digits(2);
    digits.options.optimizer = config;
    digits.options.schedule = CosineRate{.warmup_steps = 2};
    digits.options.epochs = 4;
    const TrainingResult whole = digits.fit(digits.options);
    const double first = whole.history.epochs.front().train_loss;
    EXPECT_LT(whole.history.epochs.back().train_loss, first) << name_of(config);

    digits.options.folder = folder.path() / "run";
    digits.options.callbacks = {{.on_step = [](const TrainingStep& step, RunControl& control) {
      control.stop = step.step == 9;
    }}};
    static_cast<void>(digits.fit(digits.options));
    digits.options.callbacks = {};
    digits.options.resume = true;
    const TrainingResult rest = digits.fit(digits.options);
    EXPECT_EQ(rest.history.epochs.back().train_loss, whole.history.epochs.back().train_loss)
        << name_of(config);
    EXPECT_THAT(text_of(digits.options.folder / "report.html"), HasSubstr(name_of(config)));
  }
}

TEST(OwnOptimizer, AResumedRunNamesTheSettingsThatChanged) {
  const TemporaryFolder folder;
  Digits digits(1);
  digits.options.folder = folder.path() / "run";
  digits.options.epochs = 1;
  digits.options.optimizer = NormalisedRule{};
  static_cast<void>(digits.fit(digits.options));
  digits.options.resume = true;
  digits.options.epochs = 2;
  digits.options.optimizer = Lion::Config{};
  try {
    static_cast<void>(digits.fit(digits.options));
    ADD_FAILURE() << "Lion continued the run of another rule";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("a training by Normalised, this one is by Lion"));
  }
  digits.options.optimizer = NormalisedRule{.momentum = 0.5};
  const Console console;
  digits.options.console = console.options();
  static_cast<void>(digits.fit(digits.options));
  EXPECT_THAT(console.text(), HasSubstr("momentum 0.5 instead of the saved run's 0.8"));
}

TEST(OwnOptimizer, ARuleWithAWrongSettingIsRefusedWhenTheTrainingIsMade) {
  const Runtime runtime(cpu_devices(1));
  try {
    static_cast<void>(tiny_training(runtime, 1, NormalisedRule{.momentum = 2}));
    ADD_FAILURE() << "a momentum of 2 was taken";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Normalised: momentum is 2, but must be 0 or more and"));
  }
}

}  // namespace
}  // namespace hearth
