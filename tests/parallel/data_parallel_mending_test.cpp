// Recovery from a lost device or a hung rank beyond the table of data_parallel_faults_test: the
// remaining ranks, the refusals, and the log.
#include "faulty_training.hpp"

#include <hearth/runtime/base/manual_executor.hpp>

#include <functional>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void in_virtual_time(const std::function<void(ManualExecutor&)>& body, std::uint64_t seed = 0) {
  ManualExecutor executor(seed);
  executor.run([&] { body(executor); });
}

/// kVictim's loss hangs in this call.
Fault hang_in(int call) {
  return {.call = call,
          .prank = [](const TinyNet&, Samples&, WorkerContext& context, const Hall& hall) {
            if (context.device.name() == kVictim) {
              hall.hang();
            }
            return Tensor();
          }};
}

double step_loss(Trainer& trainer, int step) {
  return trainer
      .step([step](const std::vector<Device>& ranks) {
        return divide(batch_of(step), static_cast<int>(ranks.size()));
      })
      .loss;
}

// Another thread than the trainer's restarts it, at any moment.
TEST(DataParallelMending, ADeviceThatSomeoneRestartsGetsTheModelAgain) {
  for (const DeviceLossPolicy policy : {DeviceLossPolicy::shrink, DeviceLossPolicy::replace}) {
    const TrainingOptions options{.policy = policy, .drop = 0.5};
    const std::vector<double> undisturbed =
        train_honestly({{0, 4}, {1, 4}, {2, 4}, {3, 4}}, options);
    int restarts = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      in_virtual_time(
          [&](ManualExecutor& executor) {
            const Hall hall(&executor, {});
            Trainer trainer = hall.trainer(options);
            const Device device = hall.runtime().device(kVictim);
            const auto other_hand = executor.spawn({.name = "other hand"}, [&] {
              for (std::uint64_t i = 0; i < seed * 7; ++i) {
                detail::schedule_point();
              }
              device.restart();
            });
            for (int step = 0; step < kSteps; ++step) {
              const std::uint64_t before = device.generation();
              step_loss(trainer, step);
              restarts += device.generation() == before ? 0 : 1;
            }
            other_hand->join();
            EXPECT_EQ(trainer.world(), kWorld);
            EXPECT_EQ(weights_of(trainer.snapshot()), undisturbed);
            EXPECT_TRUE(has_equal_replicas(trainer));
          },
          seed);
    }
    EXPECT_GT(restarts, 30) << "most of them in the middle of a step";
  }
}

TEST(DataParallelMending, ARestartEndsATrainingThatIsToStopAtALoss) {
  in_virtual_time([](ManualExecutor& executor) {
    const Hall hall(&executor, {});
    Trainer trainer = hall.trainer({});
    trainer.step(divide(batch_of(0), kWorld));
    hall.device(0).restart();
    EXPECT_THROW(trainer.step(divide(batch_of(1), kWorld)), DeviceError);
    const TinyNet model = trainer.take_model();
    EXPECT_EQ(model.first.weight.device().name(), name_of(1));
    EXPECT_EQ(weights_of(model), train_honestly({{0, kWorld}}, {}));
  });
}

TEST(DataParallelMending, ALostFirstRankLeavesTheModelWithTheOthers) {
  in_virtual_time([](ManualExecutor& executor) {
    const Hall hall(&executor, {.plan = {.lost_at_submit = 60}});
    const std::vector<Device> devices = hall.devices(1, 3);  // the lost device comes first
    Generator generator(3);
    Trainer trainer(hall.runtime(),
                    TinyNet(devices[0], generator, DType::f32),
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

TEST(DataParallelMending, NoRankLeftIsSaid) {
  in_virtual_time([](ManualExecutor& executor) {
    const Hall hall(&executor, {.plan = {.lost_at_submit = 60}});
    const Device only = hall.runtime().device(kVictim);
    Generator generator(3);
    Trainer trainer(hall.runtime(),
                    TinyNet(only, generator, DType::f32),
                    loss_in<TinyNet>(DType::f32),
                    {.devices = {only}, .on_loss = DeviceLossPolicy::shrink});
    EXPECT_THROW(
        {
          for (int step = 0; step < kSteps; ++step) {
            trainer.step(divide(batch_of(step), 1));
          }
        },
        DeviceError);
    EXPECT_THROW(static_cast<void>(trainer.take_model()), DeviceError);
  });
}

TEST(DataParallelMending, ShardsForTheOldWorldAreRefusedAfterAShrink) {
  in_virtual_time([](ManualExecutor& executor) {
    const Hall hall(&executor, {.plan = {.lost_at_submit = 60}});
    Trainer trainer = hall.trainer({.policy = DeviceLossPolicy::shrink});
    bool has_failed = false;
    for (int step = 0; step < kSteps && !has_failed; ++step) {
      has_failed = !trainer.step_later(divide(batch_of(step), kWorld)).wait().has_value();
    }
    ASSERT_TRUE(has_failed);
    EXPECT_EQ(trainer.devices().size(), 3U);
    EXPECT_EQ(trainer.world(), 3);
    EXPECT_THROW(trainer.step(divide(batch_of(1), kWorld)), ArgumentError);
    trainer.step(divide(batch_of(1), 3));
    EXPECT_TRUE(has_equal_replicas(trainer));
    const auto ranks = trainer.evaluate([](const TinyNet&, WorkerContext& context) {
      return std::pair(context.rank, context.world);
    });
    EXPECT_THAT(ranks, ElementsAre(std::pair(0, 3), std::pair(1, 3), std::pair(2, 3)));
  });
}

TEST(DataParallelMending, RefusesSparesThatMakeNoSense) {
  const Hall hall(nullptr, {});
  const auto open = [&](DataParallelOptions options) {
    const Trainer trainer(
        hall.runtime(), hall.first_model(), loss_in<TinyNet>(DType::f32), std::move(options));
  };
  EXPECT_THROW(open({.devices = hall.devices(0, 2), .spares = hall.devices(2, 3)}), ArgumentError);
  EXPECT_THROW(open({.devices = hall.devices(0, 2),
                     .on_loss = DeviceLossPolicy::replace,
                     .spares = hall.devices(1, 2)}),
               ArgumentError);
}

TEST(DataParallelMending, TheLogSaysThatADeviceDoesNotAnswer) {
  ::testing::internal::CaptureStderr();
  const Trained trained = train({.stuck_at = 60}, {.policy = DeviceLossPolicy::replace});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("DataParallel: rank 1 on sim:1 hangs, it did not answer for 3000ms "
                        "after its deadline; the other ranks go on without it"));
  EXPECT_THAT(trained.devices, ElementsAre("sim:0", "sim:2", "sim:3"));
}

TEST(DataParallelMending, StepsBehindTheOneThatHangsFailWithIt) {
  in_virtual_time([](ManualExecutor& executor) {
    Hall hall(&executor, hang_in(1));
    Trainer trainer = hall.trainer({.policy = DeviceLossPolicy::shrink});
    const detail::TimePoint start = detail::current_context().clock().now();
    std::vector<Pending<DataParallelReport>> steps;
    steps.reserve(3);
    for (int step = 0; step < 3; ++step) {
      steps.push_back(trainer.step_later(divide(batch_of(step), kWorld)));
    }
    EXPECT_EQ(steps[0].wait().error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(steps[1].wait().error().code, ErrorCode::collective_failed);
    EXPECT_EQ(steps[2].wait().error().code, ErrorCode::collective_failed);
    EXPECT_EQ(detail::current_context().clock().now() - start, 5s) << "once, for all of them";
    EXPECT_THROW(trainer.step(divide(batch_of(0), kWorld)), ArgumentError);
    EXPECT_EQ(trainer.world(), kWorld - 1);
    trainer.step(divide(batch_of(0), kWorld - 1));
    EXPECT_EQ(weights_of(trainer.snapshot()), train_honestly({{0, kWorld - 1}}, {}));
  });
}

TEST(DataParallelMending, ATrainerThatIsDestroyedLeavesALossFunctionThatHangsBehind) {
  in_virtual_time([](ManualExecutor& executor) {
    const Hall hall(&executor, hang_in(1));
    std::optional<detail::TimePoint> start;
    {
      Trainer trainer = hall.trainer({});
      const Pending<DataParallelReport> step = trainer.step_later(divide(batch_of(0), kWorld));
      EXPECT_FALSE(detail::PendingAccess::is_ready_by(step, Deadline::in(1s)));
      start = detail::current_context().clock().now();
    }
    EXPECT_EQ(detail::current_context().clock().now() - *start, kDefaultWait);
  });
}

// The test does not control the order of threads, and the abandoned thread outlives the runtime.
TEST(DataParallelMending, ThreadsGoOnWithoutARankThatHangsToo) {
  Promise<void> release;
  const auto released = std::make_shared<const Pending<void>>(release.pending());
  {
    const Runtime runtime({.devices = {{.name = "sim:0"}, {.name = "sim:1"}, {.name = "sim:2"}}});
    Generator generator(3);
    Trainer trainer(runtime,
                    TinyNet(runtime.device("sim:0"), generator, DType::f32),
                    [released, calls = 0](
                        const TinyNet& model, Samples& shard, WorkerContext& context) mutable {
                      if (context.device.name() == kVictim && ++calls == 2) {
                        static_cast<void>(released->wait({.deadline = Deadline::never()}));
                      }
                      return mean_loss(model, shard, context.device, DType::f32);
                    },
                    {.devices = runtime.devices(),
                     .deadline = 200ms,
                     .hang_limit = 200ms,
                     .on_loss = DeviceLossPolicy::shrink});
    for (int step = 0; step < kSteps; ++step) {
      step_loss(trainer, step);
    }
    EXPECT_EQ(trainer.world(), 2);
    EXPECT_TRUE(has_equal_replicas(trainer));
  }
  release.set_value();
}

}  // namespace
}  // namespace hearth
