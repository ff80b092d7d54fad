// The extremes of the trainer's limits: no limits, and time in which no thread of the process could
// run.
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include "training_support.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using namespace hearth::testing;  // NOLINT: a test's own words

RuntimeOptions sims(detail::Executor& executor) {
  return {.devices = {{.name = "sim:0"}, {.name = "sim:1"}}, .executor = &executor};
}

TinyNet model_on(const Device& device) {
  Generator generator(3);
  return TinyNet(device, generator, DType::f32);
}

std::vector<Samples> batch(int step) {
  return divide(random_samples(8, TinyNet::kSide, static_cast<std::uint64_t>(step)), 2);
}

Tensor loss_of(const TinyNet& model, const Samples& shard, const WorkerContext& context) {
  return mean_loss(model, shard, context.device, DType::f32);
}

TEST(DataParallelLimits, TheLargestDurationMeansNoLimit) {
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime(sims(executor));
    DataParallel<TinyNet, Samples> trainer(runtime,
                                           model_on(runtime.device("sim:0")),
                                           loss_of,
                                           {.devices = runtime.devices(),
                                            .optimizer = Sgd::Config{.learning_rate = 0.05},
                                            .deadline = std::chrono::nanoseconds::max(),
                                            .hang_limit = std::chrono::nanoseconds::max(),
                                            .step_limit = std::chrono::nanoseconds::max(),
                                            .shutdown_limit = std::chrono::nanoseconds::max()});
    for (int step = 0; step < 3; ++step) {
      EXPECT_EQ(trainer.step(batch(step)).late_failure, nullptr);
    }
  });
}

// In the middle of a step, for longer than the sum of its limits.
TEST(DataParallelLimits, AStandstillOfTheProcessFailsNoStepAndLosesNoRank) {
  for (const int stopped_call : {1, 4, 5}) {
    ManualExecutor executor;
    executor.run([&] {
      const Runtime runtime(sims(executor));
      int calls = 0;
      const auto loss = [&](const TinyNet& model, Samples& shard, WorkerContext& context) {
        if (++calls == stopped_call) {
          detail::current_context().parker().park(
              Deadline::in(1s));  // the other rank waits for this one
          executor.stand_still(1h);
          detail::current_context().parker().park(Deadline::in(1s));
        }
        return loss_of(model, shard, context);
      };
      DataParallel<TinyNet, Samples> trainer(runtime,
                                             model_on(runtime.device("sim:0")),
                                             loss,
                                             {.devices = runtime.devices(),
                                              .optimizer = Sgd::Config{.learning_rate = 0.05},
                                              .on_loss = DeviceLossPolicy::shrink});
      for (int step = 0; step < 4; ++step) {
        EXPECT_EQ(trainer.step(batch(step)).late_failure, nullptr);
      }
      EXPECT_EQ(trainer.world(), 2) << "no rank counts as hung";
    });
  }
}

}  // namespace
}  // namespace hearth
