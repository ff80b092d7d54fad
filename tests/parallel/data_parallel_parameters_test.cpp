// A trainer with special parameters: tied ones, some that only some ranks or none use in a step,
// groups with their own settings, and Buffers.
#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include <hearth/modules/adam.hpp>
#include <hearth/parallel/bucket_plan.hpp>

#include <hearth/runtime/tensor_access.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The loss depends on each of its parameters except `spare`. `head` is tied to `stem`.
struct Odd {
  Tensor stem, branch, spare;
  Buffer centre;
  Tensor head, last;

  explicit Odd(const Device& device)
      : stem(full(device, {1}, 1.5, DType::f64)),
        branch(full(device, {1}, 2.0, DType::f64)),
        spare(full(device, {1}, 5.0, DType::f64)),
        centre(full(device, {1}, 0.25, DType::f64)),
        head(stem),
        last(full(device, {1}, -1.0, DType::f64)) {}
  HEARTH_MODULE(Odd, stem, branch, spare, centre, head, last)
};

struct Points {
  std::int64_t size = 0;
  std::vector<double> values;
  bool uses_branch = false;
};

Points points(std::vector<double> values, bool uses_branch = false) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {.size = size, .values = std::move(values), .uses_branch = uses_branch};
}

Tensor loss_of(const Odd& model, const Points& shard) {
  const Tensor x = Tensor::from(model.stem.device(), shard.values, {shard.size});
  const Tensor y = (x - model.centre) * model.stem;
  const Tensor z = shard.uses_branch ? y * model.branch : y;
  return mean(square(z + model.head * 0.5 - model.last));
}

// The mean over the samples of all shards, as on one device.
Tensor loss_of(const Odd& model, const std::vector<Points>& shards) {
  std::int64_t count = 0;
  for (const Points& shard : shards) {
    count += shard.size;
  }
  Tensor sum = zeros(model.stem.device(), {}, DType::f64);
  for (const Points& shard : shards) {
    const auto share = static_cast<double>(shard.size) / static_cast<double>(count);
    sum = shard.size == 0 ? sum : sum + loss_of(model, shard) * share;
  }
  return sum;
}

const AdamW::Config kDecaying{.learning_rate = 0.05, .weight_decay = 0.1};

struct Bench {
  explicit Bench(int count, DataParallelOptions options = {.optimizer = kDecaying})
      : runtime(cpu_devices(count)),
        trainer(
            runtime,
            Odd(runtime.device("cpu:0")),
            [](const Odd& model, Points& shard, WorkerContext&) { return loss_of(model, shard); },
            with_devices(std::move(options), count)) {}
  DataParallelOptions with_devices(DataParallelOptions options, int count) const {
    for (int i = 0; i < count; ++i) {
      options.devices.push_back(runtime.device("cpu:" + std::to_string(i)));
    }
    return options;
  }

  Runtime runtime;
  DataParallel<Odd, Points> trainer;
};

using Step = std::vector<Points>;  // by rank

// The same steps in a plain loop.
std::vector<double> alone(const std::vector<Step>& steps) {
  const Runtime runtime(cpu_devices(1));
  Odd model(runtime.device("cpu:0"));
  AdamW optimizer(kDecaying);
  for (const Step& step : steps) {
    auto loss = [&](const Odd& tracked) { return loss_of(tracked, step); };
    optimizer.step(model, value_and_grad(model, loss).gradients).get();
  }
  return weights_of(model);
}

void expect_like_one_device(const std::vector<Step>& steps) {
  Bench bench(static_cast<int>(steps.front().size()));
  for (const Step& step : steps) {
    bench.trainer.step(Step(step));
  }
  EXPECT_TRUE(has_equal_replicas(bench.trainer));
  const Odd model = bench.trainer.snapshot();
  EXPECT_LE(largest_difference(weights_of(model), alone(steps)), 1e-12);
  EXPECT_EQ(model.spare.item(), 5) << "no rank uses it: no decay";
}

TEST(DataParallelParameters, TiedOnesStayTiedOnAllRanksAndAreTrainedOnce) {
  Bench bench(2);
  EXPECT_EQ(bench.trainer.buckets().parameters().size(), 5U)
      << "without head, and the centre moves";
  for (int i = 0; i < 3; ++i) {
    bench.trainer.step({points({1, 2}), points({3})});
  }
  const auto is_tied = [](const Odd& model, WorkerContext&) {
    return detail::TensorAccess::impl(model.head) == detail::TensorAccess::impl(model.stem) ? 1 : 0;
  };
  EXPECT_THAT(bench.trainer.evaluate(is_tied), ElementsAre(1, 1));
  const Odd copy = bench.trainer.snapshot();
  EXPECT_EQ(detail::TensorAccess::impl(copy.head), detail::TensorAccess::impl(copy.stem));
  const Odd taken = bench.trainer.take_model();
  EXPECT_EQ(detail::TensorAccess::impl(taken.head), detail::TensorAccess::impl(taken.stem));
  const Step step{points({1, 2}), points({3})};
  EXPECT_LE(largest_difference(weights_of(taken), alone({step, step, step})), 1e-12);
}

TEST(DataParallelParameters, WhatOneRankUsesIsUpdatedOnAllAndWhatNoneUsesOnNone) {
  expect_like_one_device({{points({1, 2}), points({3, 4}, true)},
                          {points({2}), points({5, 1, 2})},
                          {points({1, 2}, true), points({3})},
                          {points({1}), points({4}, true)}});
}

TEST(DataParallelParameters, ARankWithoutSamplesUsesNoneAndUpdatesWhatTheOthersUse) {
  expect_like_one_device(
      {{points({}), points({3, 4}, true), points({1})}, {points({1}), points({}), points({})}});
}

TEST(DataParallelParameters, EarlierMicroBatchesCountForEveryParameter) {
  Bench bench(2);
  const std::vector<Step> micro{{points({1, 2}), points({2}, true)},
                                {points({0.5}, true), points({3, 1})},
                                {points({-1}), points({})}};
  const Step together{micro[0][0], micro[0][1], micro[1][0], micro[1][1], micro[2][0]};
  bench.trainer.step(std::vector<Step>(micro));
  bench.trainer.step(std::vector<Step>(micro));
  EXPECT_TRUE(has_equal_replicas(bench.trainer));
  EXPECT_LE(largest_difference(weights_of(bench.trainer.snapshot()), alone({together, together})),
            1e-12);
}

TEST(DataParallelParameters, AReplicaThatIsMadeAnewKnowsTheUpdatesOfEachParameter) {
  Bench bench(2, {.optimizer = kDecaying, .on_loss = DeviceLossPolicy::replace});
  const Step plain{points({1, 2}), points({3})};
  const Step branching{points({1, 2}, true), points({3})};
  bench.trainer.step(Step(plain));
  bench.trainer.step(Step(plain));
  bench.runtime.device("cpu:1").restart();
  bench.trainer.step(Step(branching));
  bench.trainer.step(Step(branching));
  EXPECT_TRUE(has_equal_replicas(bench.trainer));
  EXPECT_LE(largest_difference(weights_of(bench.trainer.snapshot()),
                               alone({plain, plain, branching, branching})),
            1e-12);
}

TEST(DataParallelParameters, BuffersAreOnEveryRankAndChangeInUpdatesOfTheReplicasAlone) {
  Bench bench(2);
  const Step step{points({1, 2}), points({3})};
  bench.trainer.step(Step(step));
  const auto centre = [](const Odd& model, WorkerContext&) { return model.centre.item(); };
  EXPECT_THAT(bench.trainer.evaluate(centre), Each(0.25));
  bench.trainer.update_replicas(
      [](Odd& model, Optimizer&) { model.centre = Tensor(model.centre * 2); });
  bench.trainer.step(Step(step));
  EXPECT_THAT(bench.trainer.evaluate(centre), Each(0.5));
  EXPECT_EQ(bench.trainer.snapshot().centre.item(), 0.5);
}

TEST(DataParallelParameters, AFailedStepSkipsNothingAndTheNextOneCounts) {
  Bench bench(2);
  const Step plain{points({1, 2}), points({3})};
  EXPECT_THROW(bench.trainer.step({points({NAN}), points({3}, true)}), Exception);
  bench.trainer.step(Step(plain));
  EXPECT_TRUE(has_equal_replicas(bench.trainer));
  EXPECT_LE(largest_difference(weights_of(bench.trainer.snapshot()), alone({plain})), 1e-12);
}

TEST(DataParallelParameters, GroupsHoldOnEveryRank) {
  AdamW::Config grouped = kDecaying;
  grouped.groups = {{.match = "st*", .weight_decay = 0}, {.match = "last", .rate_factor = 0}};
  Bench bench(2, {.optimizer = grouped});
  const Step step{points({1, 2}), points({3})};
  bench.trainer.step(Step(step));
  const Odd model = bench.trainer.snapshot();
  EXPECT_EQ(model.last.item(), -1);
  EXPECT_NE(model.stem.item(), 1.5);
  EXPECT_NE(model.stem.item(), alone({step})[0]) << "without decay";
  EXPECT_TRUE(has_equal_replicas(bench.trainer));
}

TEST(DataParallelParameters, AGroupThatMatchesNoneIsRefusedAtOnce) {
  AdamW::Config grouped = kDecaying;
  grouped.groups = {{.match = "*.bias", .weight_decay = 0}};
  try {
    const Bench bench(2, {.optimizer = grouped});
    FAIL() << "taken";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("the pattern '*.bias' matches no parameter; there are: stem, branch, "
                          "spare, last"));
  }
}

TEST(DataParallelParameters, ShardsThatCannotBeCountedAreRefused) {
  Bench bench(2);
  Points huge = points({1});
  huge.size = std::numeric_limits<std::int64_t>::max() / 2 + 1;
  try {
    bench.trainer.step({huge, huge});
    FAIL() << "taken";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the shards have more than 9223372036854775807 samples"));
  }
  bench.trainer.step({points({1}), points({2})});
}

}  // namespace
}  // namespace hearth
