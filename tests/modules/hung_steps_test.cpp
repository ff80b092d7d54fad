// Steps and files of a training on an inline sim that hangs at each of its ops in turn.
#include <hearth/modules/adam.hpp>
#include <hearth/modules/linear.hpp>
#include <hearth/modules/training_state.hpp>
#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/runtime.hpp>

#include "tests/base/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <filesystem>

namespace hearth {
namespace {

constexpr int kSteps = 2;

struct Training {
  Training(std::uint64_t hanging_submit, Fusion fusion)
      : runtime(
            {.devices = {{.name = "sim:0", .faults = FaultPlan{.hanging_submit = hanging_submit}}},
             .fusion = fusion,
             .deterministic = true}),  // equal windows, and so equal kernels, in each run
        device(runtime.device("sim:0")),
        model({.in = 3, .out = 2}, device, generator) {}

  /// Whether the last step reports that it happened.
  [[nodiscard]] bool train() {
    bool happened = false;
    for (int i = 0; i < kSteps; ++i) {
      auto [loss, gradients] = value_and_grad(model, [&](const Linear& tracked) {
        return mean(square(tracked.forward(ones(device, {2, 3}))));
      });
      happened = adam.step(model, std::move(gradients)).wait().has_value();
    }
    return happened;
  }

  Runtime runtime;
  Device device;
  Generator generator{1};
  Linear model;
  Optimizer adam = Adam({.learning_rate = 0.1});
};

std::uint64_t ops_of_a_training(Fusion fusion) {
  Training training(0, fusion);
  EXPECT_TRUE(training.train());
  return training.device.statistics().kernels;
}

// Every op precedes the end of the last step, so that this step never happens.
TEST(HungSteps, OfAdamNeverSayThatTheyHappened) {
  if (detail::Settings::from_environment().text(detail::Setting::async_sims)) {
    GTEST_SKIP() << "of inline sims";
  }
  for (const Fusion fusion : {Fusion::off, Fusion::on}) {
    const std::uint64_t ops = ops_of_a_training(fusion);
    EXPECT_GT(ops, 10U);
    for (std::uint64_t op = 1; op <= ops; ++op) {
      Training training(op, fusion);
      EXPECT_FALSE(training.train()) << "op " << op << " of " << ops;
      const Status status = training.device.sync_later().wait();
      ASSERT_FALSE(status.has_value());
      EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
    }
  }
}

// The op that hangs is the last one: a weight, a moment or the loss has no value, and no file is
// written without it.
TEST(HungSteps, AreNotSaved) {
  if (detail::Settings::from_environment().text(detail::Setting::async_sims)) {
    GTEST_SKIP() << "of inline sims";
  }
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "state";
  const std::uint64_t ops = ops_of_a_training(Fusion::off);
  Training training(ops, Fusion::off);
  EXPECT_FALSE(training.train());
  EXPECT_THROW(save_training(training.model, training.adam, {}, file), Exception);
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace hearth
