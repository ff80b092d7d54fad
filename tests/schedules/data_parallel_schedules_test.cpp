// Data-parallel training under many schedules, with a device lost at any of its ops or ops that
// fail: no step hangs, the replicas stay equal, and what was trained depends on which ranks took
// part, never on the order of the threads' steps. EXPLORE_SCHEDULES says how many schedules each
// fault gets.
#include "tests/parallel/training_support.hpp"
#include "tests/support/explore.hpp"

#include <hearth/backends/sim/sim_backend.hpp>

#include "runtime/backend_factory.hpp"

#include <map>

#include <gtest/gtest.h>

namespace hearth::testing {
namespace {

using Trainer = DataParallel<TinyNet, Samples>;

constexpr int kWorld = 3;
constexpr int kSteps = 2;
constexpr std::int64_t kBatch = 7;

std::string name_of(int rank) {
  return "sim:" + std::to_string(rank);
}

struct Kill {
  int rank = 0;
  sim::FaultPlan faults = {};
};

struct Trained {
  std::vector<std::size_t> worlds;  ///< Ranks that took part, by step; 0: the step failed.
  std::vector<double> weights;
};

/// Whether the fault of the plan is at the bottom of it.
bool is_planned(const Error& error) {
  return error.text.find("as planned") != std::string::npos ||
         (error.cause && is_planned(*error.cause));
}

Trained train(ManualExecutor& executor, const Kill& kill) {
  int opened = 0;
  const BackendFactory factory{
      .make = [&](const BackendRequest& request) -> std::unique_ptr<Backend> {
        const bool is_victim = request.name == name_of(kill.rank) && ++opened == 1;
        return std::make_unique<sim::SimBackend>(sim::SimOptions{
            .name = request.name, .faults = is_victim ? kill.faults : sim::FaultPlan{}});
      }};
  RuntimeOptions options{.devices = {}, .executor = &executor, .backend_factory = &factory};
  for (int rank = 0; rank < kWorld; ++rank) {
    options.devices.push_back({.name = name_of(rank)});
  }
  const Runtime runtime(options);
  Generator generator(3);
  Trainer trainer(runtime,
                  TinyNet(runtime.device(name_of(kWorld - 1)), generator, DType::f32),
                  loss_in<TinyNet>(DType::f32),
                  {.devices = runtime.devices(),
                   .optimizer = Sgd::Config{.learning_rate = 0.05},
                   .bucket_bytes = 256,
                   .seed = 5,
                   .on_loss = LossPolicy::shrink});
  Trained result;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const TimePoint start = current_context().clock().now();
    std::size_t world = 0;
    try {
      static_cast<void>(trainer.step([&](const std::vector<Device>& ranks) {
        world = ranks.size();
        return divide(random_samples(kBatch, TinyNet::kSide, step), static_cast<int>(world));
      }));
    } catch (const Exception& error) {
      require(is_planned(error.error()), error.what());
      world = 0;  // as a whole, or the replicas would differ below
    }
    result.worlds.push_back(world);
    require(current_context().clock().now() - start < std::chrono::seconds(60), "a step hung");
  }
  require(has_equal_replicas(trainer), "the replicas differ");
  result.weights = weights_of(trainer.snapshot());
  return result;
}

class DataParallelSchedules : public ::testing::Test {
 protected:
  void explore_kill(const std::string& name, const Kill& kill, Strategy strategy) {
    const Exploration found =
        explore({.name = "data_parallel_" + name,
                 .strategy = strategy,
                 .schedules = schedule_count(2),
                 .max_steps = 1'000'000},
                [&](ManualExecutor& executor) { train_and_compare(executor, kill); });
    EXPECT_FALSE(found.failure.has_value()) << name << ": " << found.failure->text;
    schedules_ += found.schedules;
    steps_ += found.steps;
  }
  void train_and_compare(ManualExecutor& executor, const Kill& kill) {
    Trained result;
    try {
      result = train(executor, kill);
    } catch (const Exception& error) {
      // The fault came before the first step, or while the weights were read after the last.
      require(is_planned(error.error()), error.what());
      ++outside_;
      return;
    }
    const auto [known, is_new] = weights_.try_emplace(result.worlds, result.weights);
    require(is_new || known->second == result.weights, "the same ranks trained something else");
  }
  ~DataParallelSchedules() override {
    std::printf(
        "%lu schedules, %lu of them with the fault outside a step, %lu steps, %zu different sets "
        "of ranks\n",
        schedules_,
        outside_,
        steps_,
        weights_.size());
  }

  std::map<std::vector<std::size_t>, std::vector<double>> weights_;
  std::uint64_t schedules_ = 0;
  std::uint64_t outside_ = 0;
  std::uint64_t steps_ = 0;
};

TEST_F(DataParallelSchedules, WithoutAFaultEveryOrderGivesTheSameBits) {
  for (const Strategy strategy : {Strategy::random, Strategy::pct}) {
    explore_kill("whole", {}, strategy);
  }
  EXPECT_EQ(weights_.size(), 1U);
}

// The first ops upload the model; the last that are tried fall after the second step.
TEST_F(DataParallelSchedules, ADeviceLostAtAnyOpLeavesNoStepHalfDone) {
  for (std::uint64_t submit = 5; submit <= 125; submit += 4) {
    for (const Strategy strategy : {Strategy::random, Strategy::pct}) {
      explore_kill("lost_at_" + std::to_string(submit),
                   {.rank = static_cast<int>(submit % 3), .faults = {.lost_at_submit = submit}},
                   strategy);
    }
  }
  EXPECT_GT(weights_.size(), 1U) << "no device was lost during a step";
  EXPECT_LT(outside_, schedules_ / 2);
}

TEST_F(DataParallelSchedules, AnOpThatFailsFailsItsStepOnAllRanks) {
  for (std::uint64_t submit = 10; submit <= 110; submit += 5) {
    explore_kill("fails_at_" + std::to_string(submit),
                 {.rank = static_cast<int>(submit % 3), .faults = {.failing_submits = {submit}}},
                 Strategy::random);
  }
}

}  // namespace
}  // namespace hearth::testing
