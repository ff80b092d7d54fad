// What a trainer does when one of its devices is lost, at every place of a step: it stops, goes on
// without it, or replaces it, and no step that has happened is lost.
#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include <hearth/backends/sim/sim_backend.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include "runtime/device/backend_factory.hpp"

#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using Trainer = DataParallel<TinyNet, Samples>;

constexpr int kWorld = 4;
constexpr int kSpares = 1;
constexpr int kSteps = 4;
constexpr std::int64_t kBatch = 13;
const std::string kLost = "sim:1";

std::string name_of(int rank) {
  return "sim:" + std::to_string(rank);
}

struct Options {
  std::uint64_t lost_at_submit = 0;  ///< Of kLost's first generation; 0: never.
  DeviceLossPolicy policy = DeviceLossPolicy::stop;
  bool has_spare = false;
  double drop = 0;
  OptimizerConfig optimizer = Sgd::Config{.learning_rate = 0.05};
};

// The devices of a training; sims, of which one is lost at some submit.
class Fleet {
 public:
  Fleet(Executor* executor, std::uint64_t lost_at_submit)
      : factory_{.make = [this, lost_at_submit](
                             const BackendRequest& request) -> std::unique_ptr<Backend> {
          const bool fails = request.name == kLost && ++opened_ == 1;
          return std::make_unique<sim::SimBackend>(sim::SimOptions{
              .name = request.name, .faults = {.lost_at_submit = fails ? lost_at_submit : 0}});
        }},
        runtime_(runtime_options(executor)) {}

  [[nodiscard]] const Runtime& runtime() const { return runtime_; }
  [[nodiscard]] std::vector<Device> devices(int begin, int end) const {
    std::vector<Device> all;
    for (int i = begin; i < end; ++i) {
      all.push_back(runtime_.device(name_of(i)));
    }
    return all;
  }

 private:
  RuntimeOptions runtime_options(Executor* executor) const {
    RuntimeOptions options{.devices = {}, .executor = executor, .backend_factory = &factory_};
    for (int i = 0; i < kWorld + kSpares; ++i) {
      options.devices.push_back({.name = name_of(i)});
    }
    return options;
  }

  int opened_ = 0;
  const BackendFactory factory_;
  const Runtime runtime_;
};

Samples batch_of(int step) {
  return random_samples(kBatch, TinyNet::kSide, static_cast<std::uint64_t>(step));
}

TinyNet first_model(const Device& device, double drop) {
  Generator generator(3);
  return TinyNet(device, generator, DType::f32, drop);
}

DataParallelOptions trainer_options(const Fleet& fleet, const Options& options) {
  return {.devices = fleet.devices(0, kWorld),
          .optimizer = options.optimizer,
          .bucket_bytes = 256,
          .seed = 5,
          .on_loss = options.policy,
          .spares =
              options.has_spare ? fleet.devices(kWorld, kWorld + kSpares) : std::vector<Device>{}};
}

struct Trained {
  std::vector<double> weights;
  std::vector<double> losses;
  std::vector<std::size_t> worlds;  ///< By step.
  bool was_lost = false;
};

Trained train(const Options& options, Executor* executor) {
  const Fleet fleet(executor, options.lost_at_submit);
  Trainer trainer(fleet.runtime(),
                  first_model(fleet.runtime().device(name_of(0)), options.drop),
                  loss_in<TinyNet>(DType::f32),
                  trainer_options(fleet, options));
  Trained result;
  const Device device = fleet.runtime().device(kLost);
  for (int step = 0; step < kSteps; ++step) {
    const TimePoint start = current_context().clock().now();
    std::size_t world = 0;
    const DataParallelReport report = trainer.step([&](const std::vector<Device>& ranks) {
      world = ranks.size();
      return divide(batch_of(step), static_cast<int>(world));
    });
    if (executor != nullptr) {  // virtual time
      EXPECT_LT(current_context().clock().now() - start, std::chrono::seconds(10));
    }
    EXPECT_EQ(report.sample_count, kBatch);
    result.losses.push_back(report.loss);
    result.worlds.push_back(world);
  }
  result.was_lost = device.is_lost() || device.generation() > 0;
  if (result.was_lost) {  // else looking at the weights might be what loses it
    EXPECT_TRUE(has_equal_replicas(trainer));
  }
  result.weights = weights_of(trainer.snapshot());
  return result;
}

Trained train_stepped(const Options& options, std::uint64_t seed = 0) {
  Trained result;
  ManualExecutor executor(seed);
  executor.run([&] { result = train(options, &executor); });
  return result;
}

// The steps with four ranks, then those with three, by trainers that lose nothing.
std::vector<double> train_honestly(const std::vector<std::size_t>& worlds) {
  std::vector<double> weights;
  ManualExecutor executor;
  executor.run([&] {
    const Fleet fleet(&executor, 0);
    TinyNet model = first_model(fleet.runtime().device(name_of(0)), 0);
    std::size_t step = 0;
    while (step < worlds.size()) {
      const std::size_t world = worlds[step];
      Trainer trainer(fleet.runtime(),
                      std::move(model),
                      loss_in<TinyNet>(DType::f32),
                      {.devices = fleet.devices(0, static_cast<int>(world)),
                       .optimizer = Sgd::Config{.learning_rate = 0.05}});
      for (; step < worlds.size() && worlds[step] == world; ++step) {
        trainer.step(divide(batch_of(static_cast<int>(step)), static_cast<int>(world)));
      }
      model = trainer.take_model();
    }
    weights = weights_of(model);
  });
  return weights;
}

// Loses the device at one submit after the other, from the first step to the last.
void for_each_loss(Options options,
                   std::uint64_t stride,
                   const std::function<void(const Trained&)>& check) {
  int losses = 0;
  for (options.lost_at_submit = 20;; options.lost_at_submit += stride) {
    SCOPED_TRACE("lost at submit " + std::to_string(options.lost_at_submit));
    const Trained trained = train_stepped(options);
    if (!trained.was_lost) {
      EXPECT_GE(losses, 20);
      return;
    }
    ++losses;
    check(trained);
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

TEST(DataParallelLoss, ShrinkGoesOnAsARunWithoutTheDeviceWould) {
  std::map<std::vector<std::size_t>, std::vector<double>> honest;
  for_each_loss({.policy = DeviceLossPolicy::shrink}, 3, [&](const Trained& trained) {
    std::vector<double>& expected = honest[trained.worlds];
    if (expected.empty()) {
      expected = train_honestly(trained.worlds);
    }
    EXPECT_EQ(trained.weights, expected);
  });
  EXPECT_GE(honest.size(), 4U) << "a loss in each step";
}

// Other orders of the threads' steps, other places of the loss: no hang, no other weights.
TEST(DataParallelLoss, TheOrderOfThreadsChangesNothing) {
  std::map<std::vector<std::size_t>, std::vector<double>> honest;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Trained trained = train_stepped(
        {.lost_at_submit = 20 + seed * 37 % 100, .policy = DeviceLossPolicy::shrink}, seed);
    std::vector<double>& expected = honest[trained.worlds];
    if (expected.empty()) {
      expected = train_honestly(trained.worlds);
    }
    EXPECT_EQ(trained.weights, expected);
  }
}

TEST(DataParallelLoss, ASpareGoesOnAsIfNothingHadBeenLost) {
  const OptimizerConfig adam = Adam::Config{.learning_rate = 0.01};
  const Options options{
      .policy = DeviceLossPolicy::replace, .has_spare = true, .drop = 0.5, .optimizer = adam};
  const Trained undisturbed = train_stepped(options);
  for_each_loss(options, 5, [&](const Trained& trained) {
    EXPECT_EQ(trained.weights, undisturbed.weights);
    EXPECT_EQ(trained.worlds, undisturbed.worlds);
  });
}

TEST(DataParallelLoss, ARestartedDeviceGoesOnAsIfItHadNotBeenLost) {
  const OptimizerConfig momentum = Sgd::Config{.learning_rate = 0.05, .momentum = 0.9};
  const Options options{.policy = DeviceLossPolicy::replace, .drop = 0.5, .optimizer = momentum};
  const Trained undisturbed = train_stepped(options);
  for_each_loss(options, 5, [&](const Trained& trained) {
    EXPECT_EQ(trained.weights, undisturbed.weights);
    EXPECT_EQ(trained.worlds, undisturbed.worlds);
  });
}

// Other hands than the trainer's, at any moment.
TEST(DataParallelLoss, ADeviceThatSomeoneRestartsGetsTheModelAgain) {
  for (const DeviceLossPolicy policy : {DeviceLossPolicy::shrink, DeviceLossPolicy::replace}) {
    const Options options{.policy = policy, .drop = 0.5};
    const Trained undisturbed = train_stepped(options);
    int restarts = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      ManualExecutor executor(seed);
      executor.run([&] {
        const Fleet fleet(&executor, 0);
        Trainer trainer(fleet.runtime(),
                        first_model(fleet.runtime().device(name_of(0)), options.drop),
                        loss_in<TinyNet>(DType::f32),
                        trainer_options(fleet, options));
        const Device device = fleet.runtime().device(kLost);
        const auto other_hands = executor.spawn({.name = "other hands"}, [&] {
          for (std::uint64_t i = 0; i < seed * 7; ++i) {
            schedule_point();
          }
          device.restart();
        });
        std::vector<double> losses;
        for (int step = 0; step < kSteps; ++step) {
          const std::uint64_t before = device.generation();
          losses.push_back(trainer
                               .step([&](const std::vector<Device>& ranks) {
                                 return divide(batch_of(step), static_cast<int>(ranks.size()));
                               })
                               .loss);
          restarts += device.generation() == before ? 0 : 1;
        }
        other_hands->join();
        EXPECT_EQ(trainer.world(), kWorld);
        EXPECT_EQ(losses, undisturbed.losses);
        EXPECT_EQ(weights_of(trainer.snapshot()), undisturbed.weights);
        EXPECT_TRUE(has_equal_replicas(trainer));
      });
    }
    EXPECT_GT(restarts, 30) << "most of them in the middle of a step";
  }
}

TEST(DataParallelLoss, ARestartEndsATrainingThatIsToStopAtALoss) {
  ManualExecutor executor;
  executor.run([&] {
    const Fleet fleet(&executor, 0);
    Trainer trainer(fleet.runtime(),
                    first_model(fleet.runtime().device(name_of(0)), 0),
                    loss_in<TinyNet>(DType::f32),
                    trainer_options(fleet, {}));
    trainer.step(divide(batch_of(0), kWorld));
    fleet.runtime().device(name_of(0)).restart();
    EXPECT_THROW(trainer.step(divide(batch_of(1), kWorld)), DeviceError);
    const TinyNet model = trainer.take_model();
    EXPECT_EQ(model.first.weight.device().name(), name_of(1));
    EXPECT_EQ(weights_of(model), train_honestly({kWorld}));
  });
}

TEST(DataParallelLoss, StopKeepsTheWeightsOfTheLastStepThatHappened) {
  for (std::uint64_t submit = 100; submit < 160; submit += 7) {
    ManualExecutor executor;
    executor.run([&] {
      const Fleet fleet(&executor, submit);
      Trainer trainer(fleet.runtime(),
                      first_model(fleet.runtime().device(name_of(0)), 0),
                      loss_in<TinyNet>(DType::f32),
                      trainer_options(fleet, {}));
      std::vector<std::size_t> happened;
      ErrorRef failure;
      while (!failure) {
        const auto step = static_cast<int>(happened.size());
        try {
          trainer.step(divide(batch_of(step), kWorld));
          happened.push_back(kWorld);
        } catch (const Exception& error) {
          failure = error.shared_error();
        }
      }
      EXPECT_TRUE(detail::is_device_loss(*failure)) << failure->to_string();
      EXPECT_THROW(trainer.step(divide(batch_of(0), kWorld)), DeviceError);
      EXPECT_EQ(weights_of(trainer.snapshot()), train_honestly(happened));
    });
  }
}

TEST(DataParallelLoss, ALostFirstRankLeavesTheModelWithTheOthers) {
  ManualExecutor executor;
  executor.run([&] {
    const Fleet fleet(&executor, 60);
    std::vector<Device> devices = fleet.devices(1, 3);  // the one that is lost comes first
    Trainer trainer(fleet.runtime(),
                    first_model(devices[0], 0),
                    loss_in<TinyNet>(DType::f32),
                    {.devices = devices, .on_loss = DeviceLossPolicy::stop});
    EXPECT_THROW(
        {
          for (int step = 0; step < kSteps; ++step) {
            trainer.step(divide(batch_of(step), 2));
          }
        },
        Exception);
    const TinyNet model = trainer.take_model();
    EXPECT_EQ(model.first.weight.device().name(), "sim:2");
    EXPECT_FALSE(weights_of(model).empty());
  });
}

TEST(DataParallelLoss, NoRankLeftIsSaid) {
  ManualExecutor executor;
  executor.run([&] {
    const Fleet fleet(&executor, 60);
    const Device only = fleet.runtime().device(kLost);
    Trainer trainer(fleet.runtime(),
                    first_model(only, 0),
                    loss_in<TinyNet>(DType::f32),
                    {.devices = {only}, .on_loss = DeviceLossPolicy::shrink});
    const auto run_on = [&] {
      for (int step = 0; step < kSteps; ++step) {
        trainer.step(divide(batch_of(step), 1));
      }
    };
    EXPECT_THROW(run_on(), DeviceError);
    EXPECT_THROW(static_cast<void>(trainer.take_model()), DeviceError);
  });
}

TEST(DataParallelLoss, ShardsForTheOldWorldAreRefusedAfterAShrink) {
  ManualExecutor executor;
  executor.run([&] {
    const Fleet fleet(&executor, 60);
    Trainer trainer(fleet.runtime(),
                    first_model(fleet.runtime().device(name_of(0)), 0),
                    loss_in<TinyNet>(DType::f32),
                    trainer_options(fleet, {.policy = DeviceLossPolicy::shrink}));
    std::optional<Status> failed;
    for (int step = 0; step < kSteps && !failed; ++step) {
      const Status status = trainer.step_later(divide(batch_of(step), kWorld)).wait();
      if (!status.has_value()) {
        failed = status;
      }
    }
    ASSERT_TRUE(failed.has_value());
    EXPECT_EQ(trainer.devices().size(), 3U);
    EXPECT_EQ(trainer.world(), 3);
    EXPECT_THROW(trainer.step(divide(batch_of(1), kWorld)), ArgumentError);
    trainer.step(divide(batch_of(1), 3));
    EXPECT_TRUE(has_equal_replicas(trainer));
    const auto ranks = trainer.evaluate([](const TinyNet&, WorkerContext& context) {
      return std::pair(context.rank, context.world);
    });
    EXPECT_THAT(ranks, ::testing::ElementsAre(std::pair(0, 3), std::pair(1, 3), std::pair(2, 3)));
  });
}

TEST(DataParallelLoss, RefusesSparesThatMakeNoSense) {
  const Fleet fleet(nullptr, 0);
  const auto open = [&](DataParallelOptions options) {
    const Trainer trainer(fleet.runtime(),
                          first_model(fleet.runtime().device(name_of(0)), 0),
                          loss_in<TinyNet>(DType::f32),
                          std::move(options));
  };
  EXPECT_THROW(open({.devices = fleet.devices(0, 2), .spares = fleet.devices(2, 3)}),
               ArgumentError);
  EXPECT_THROW(open({.devices = fleet.devices(0, 2),
                     .on_loss = DeviceLossPolicy::replace,
                     .spares = fleet.devices(1, 2)}),
               ArgumentError);
}

// With real threads, where nobody chooses the order.
TEST(DataParallelLoss, ThreadsSurviveALossToo) {
  for (const std::uint64_t submit : {70U, 101U, 133U}) {
    const Trained trained =
        train({.lost_at_submit = submit, .policy = DeviceLossPolicy::shrink}, nullptr);
    EXPECT_EQ(trained.weights, train_honestly(trained.worlds));
  }
}

}  // namespace
}  // namespace hearth
