// Data-parallel training under many schedules, with a device lost at any of its ops, ops that fail,
// or an op that hangs. No step hangs, and the replicas stay equal. The trained weights depend on
// the ranks that took part, never on the order of the threads' steps. EXPLORE_SCHEDULES sets the
// number of schedules for each fault.
#include "tests/parallel/training_support.hpp"
#include "tests/support/explore.hpp"

#include "runtime/device/backend_factory.hpp"
#include "tests/runtime/stuck_backend.hpp"
#include "tests/support/faulty_sim.hpp"

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
  FaultPlan faults = {};
  std::uint64_t hangs_at = 0;  ///< Number of the submit that hangs; 0: none.
};

/// Releases a kernel that hangs, so that the abandoned threads end.
class Release {
 public:
  explicit Release(StuckControl& control) : control_(control) {}
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
  ~Release() {
    control_.release.set_value();
    const Deadline end = Deadline::in(std::chrono::seconds(1));
    while (!end.has_passed()) {
      detail::current_context().parker().park(end);
    }
  }

 private:
  StuckControl& control_;
};

struct Trained {
  std::vector<std::size_t> worlds;  ///< Ranks that took part, by step; 0: the step failed.
  std::vector<double> weights;
};

/// Whether the root cause is the fault of the plan.
bool is_planned(const Error& error) {
  return error.text.find("by the fault plan") != std::string::npos ||
         (error.cause && is_planned(*error.cause));
}

Trained train(ManualExecutor& executor, const Kill& kill) {
  int opened = 0;
  StuckControl control(kill.hangs_at);
  const detail::BackendFactory factory{
      .make = [&](const BackendRequest& request) -> std::unique_ptr<Backend> {
        if (kill.hangs_at != 0 && request.name == name_of(kill.rank)) {
          return std::make_unique<StuckBackend>(request.name, &control);
        }
        const bool is_victim = request.name == name_of(kill.rank) && ++opened == 1;
        return make_sim(request, is_victim ? kill.faults : FaultPlan{});
      }};
  RuntimeOptions options{.devices = {}, .executor = &executor};
  for (int rank = 0; rank < kWorld; ++rank) {
    options.devices.push_back({.name = name_of(rank)});
  }
  const Runtime runtime(options, factory);
  const Release release(control);
  Generator generator(3);
  Trainer trainer(runtime,
                  TinyNet(runtime.device(name_of(kWorld - 1)), generator, DType::f32),
                  loss_in<TinyNet>(DType::f32),
                  {.devices = runtime.devices(),
                   .optimizer = Sgd::Config{.learning_rate = 0.05},
                   .bucket_bytes = 256,
                   .seed = 5,
                   .on_loss = DeviceLossPolicy::shrink});
  Trained result;
  for (std::uint64_t step = 0; step < kSteps; ++step) {
    const detail::TimePoint start = detail::current_context().clock().now();
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
    require(detail::current_context().clock().now() - start < std::chrono::seconds(10),
            "a step hung");
  }
  control.stuck_at = 0;  // otherwise reading the weights would hang
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
      // The fault came before the first step, or during the last read of the weights.
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

// The first ops upload the model; the last tested submits are after the second step.
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

TEST_F(DataParallelSchedules, AKernelThatDoesNotComeBackLeavesNoStepHalfDone) {
  for (std::uint64_t submit = 20; submit <= 120; submit += 4) {
    for (const Strategy strategy : {Strategy::random, Strategy::pct}) {
      explore_kill("hangs_at_" + std::to_string(submit),
                   {.rank = static_cast<int>(submit / 4 % 3), .hangs_at = submit},
                   strategy);
    }
  }
  EXPECT_GT(weights_.size(), 1U) << "nothing hung during a step";
  EXPECT_EQ(outside_, 0U);
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
