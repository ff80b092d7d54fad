// Whole user programs, stepped: the seed changes the order of threads and never the result.
#include "stepped_runtime.hpp"

#include <optional>

#include <hearth/runtime/autodiff.hpp>
#include <hearth/runtime/update_group.hpp>

namespace hearth {
namespace {

using namespace std::chrono_literals;
using testing::pass;
using testing::stepped;
using testing::World;

// Trains a linear layer on each of three threads, on shared data; a fourth thread sums the layers
// that they hand over.
std::vector<float> train_three(const World& world) {
  Generator generator(5);
  const Tensor data = random_normal(world.device, {8, 4}, generator);
  const Tensor target = random_normal(world.device, {8, 2}, generator);
  std::vector<std::optional<Tensor>> results(3);
  std::vector<std::unique_ptr<detail::Joinable>> threads;
  for (std::size_t worker = 0; worker < results.size(); ++worker) {
    threads.push_back(world.spawn("worker", [&, worker] {
      Generator own(worker + 1);
      Tensor weight = random_normal(world.device, {4, 2}, own);
      Tensor momentum = zeros_like(weight);
      for (int step = 0; step < 3; ++step) {
        std::vector<Tensor> gradients = grad(
            [&](const std::vector<Tensor>& in) {
              return mean(square(matmul(data, in[0]) - target));
            },
            {weight});
        UpdateGroup group(world.device);
        group.sgd(weight,
                  std::move(gradients[0]),
                  momentum,
                  {.learning_rate = 0.1, .momentum = 0.9, .first = step == 0});
        group.commit().get();
      }
      weight.publish();
      results[worker] = std::move(weight);
    }));
  }
  std::vector<float> total;
  world
      .spawn("reader",
             [&] {
               Tensor sum = zeros(world.device, {4, 2});
               for (std::size_t worker = 0; worker < results.size(); ++worker) {
                 threads[worker]->join();
                 Tensor weight = std::move(*results[worker]);
                 weight.adopt();
                 sum = std::move(sum) + std::move(weight);
               }
               total = sum.to_vector<float>();
             })
      ->join();
  return total;
}

TEST(Manual, TwoHundredSeedsGiveOneResult) {
  std::vector<float> first;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    stepped({.devices = {{.name = "cpu:0"}}, .seed = seed}, [&](const World& world) {
      const std::vector<float> result = train_three(world);
      ASSERT_EQ(result.size(), 8U);
      if (seed == 0) {
        first = result;
      }
      ASSERT_EQ(result, first) << "seed " << seed;
    });
  }
}

TEST(Manual, OneSeedGivesOneOrderOfSteps) {
  std::uint64_t steps = 0;
  for (int round = 0; round < 2; ++round) {
    stepped({.seed = 42}, [&](const World& world) {
      static_cast<void>(train_three(world));
      if (round == 0) {
        steps = world.executor.step_count();
      }
      EXPECT_EQ(world.executor.step_count(), steps);
    });
  }
}

TEST(Manual, IdleDevicesLeaveNoRunnableThread) {
  stepped([](const World& world) {
    EXPECT_EQ((world.f32({1}) + 1).item(), 2);
    pass(1s);  // the actors' short sleeps are over
    const std::uint64_t steps = world.executor.step_count();
    pass(24h);
    EXPECT_EQ(world.executor.step_count(), steps + 1) << "somebody but this thread ran";
  });
}

TEST(Manual, AnIdleActorWakesForTheFirstRing) {
  stepped([](const World& world) {
    pass(1s);
    const Pending<void> done = world.device.sync_later();
    const detail::TimePoint start = testing::now();
    while (!done.is_ready()) {
      detail::schedule_point();
      ASSERT_EQ(testing::now(), start) << "time had to pass before the actor looked";
    }
  });
}

TEST(Manual, ManyRuntimesLiveSideBySide) {
  ManualExecutor executor(3);
  executor.run([&] {
    Runtime first({.devices = {{.name = "sim:0"}}, .executor = &executor});
    std::optional<Runtime> second;
    second.emplace(RuntimeOptions{.devices = {{.name = "sim:0"}}, .executor = &executor});
    const Tensor a = full(first.device("sim:0"), {1}, 1);
    const Tensor b = full(second->device("sim:0"), {1}, 2);
    EXPECT_EQ((a + 1).item(), 2);
    EXPECT_EQ((b + 1).item(), 3);
    second.reset();
    EXPECT_EQ((a + 2).item(), 3);
    EXPECT_THROW(static_cast<void>(b + 1), DeviceError);
  });
}

}  // namespace
}  // namespace hearth
