// Devices of different speed in one training: a rank that makes progress is awaited, and batches
// are divided by the devices' speed. In virtual time.
#include <hearth/modules/linear.hpp>
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/parallel/trainer.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/backends/sim/sim_backend.hpp>

#include "runtime/device/backend_factory.hpp"
#include "tests/support/faulty_sim.hpp"
#include "tests/support/forwarding_backend.hpp"
#include "training_support.hpp"

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using ::testing::HasSubstr;

/// Time of each kernel: by call, for example for a compilation, and for each row of its result.
struct Pace {
  nanoseconds call{0};
  nanoseconds row{0};
  int slow_calls = 1 << 30;  ///< The number of calls that take `call`.
};

class PacedSim final : public ForwardingBackend {
 public:
  PacedSim(std::unique_ptr<Backend> sim, Pace pace)
      : ForwardingBackend(std::move(sim)), pace_(pace), info_(ForwardingBackend::info()) {
    info_.description = "paced " + info_.name;
  }
  [[nodiscard]] const BackendInfo& info() const noexcept override { return info_; }
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    const Shape& made = launch.call.outputs.front().shape();
    nanoseconds time = made.rank() > 0 ? pace_.row * made[0] : nanoseconds(0);
    time += ++count_ <= pace_.slow_calls ? pace_.call : nanoseconds(0);
    for (const Deadline end = Deadline::in(time); !end.has_passed();) {
      detail::current_context().parker().park(end);
    }
    return ForwardingBackend::submit_one(launch, after);
  }

 private:
  const Pace pace_;
  BackendInfo info_;
  int count_ = 0;
};

detail::BackendFactory paced(std::map<std::string, Pace> paces) {
  return {.make = [paces = std::move(paces)](
                      const BackendRequest& request) -> std::unique_ptr<Backend> {
    const auto pace = paces.find(request.name);
    return pace == paces.end() ? nullptr
                               : std::make_unique<PacedSim>(make_sim(request, {}), pace->second);
  }};
}

RuntimeOptions two_sims_of(detail::Executor& executor, bool deterministic = false) {
  return {.devices = {{.name = "sim:0"}, {.name = "sim:1"}},
          .fusion = Fusion::off,
          .deterministic = deterministic,
          .executor = &executor};
}

TinyNet tiny_net(const Device& device) {
  Generator generator(3);
  return TinyNet(device, generator, DType::f32);
}

// A kernel a second, as if each were compiled: the rank's first bucket arrives long after the 5 s
// that the other rank waits for a rank without progress.
TEST(SlowRank, ThatGetsOnIsWaitedForAndOneThatDoesNotIsNamedWithTheOption) {
  for (const nanoseconds call : {nanoseconds(1s), nanoseconds(50s)}) {
    ManualExecutor executor;
    executor.run([&] {
      const Runtime runtime(two_sims_of(executor),
                            paced({{"sim:1", {.call = call, .slow_calls = 400}}}));
      DataParallel<TinyNet, Samples> trainer(
          runtime,
          tiny_net(runtime.device("sim:0")),
          loss_in<TinyNet>(DType::f32),
          {.devices = runtime.devices(), .optimizer = Sgd::Config{.learning_rate = 0.05}});
      const detail::TimePoint start = detail::current_context().clock().now();
      const Status status = trainer.step_later(divide(random_samples(4, TinyNet::kSide, 1), 2))
                                .wait({.deadline = Deadline::in(10min)});
      const nanoseconds taken = detail::current_context().clock().now() - start;
      if (call == 1s) {
        EXPECT_TRUE(status.has_value()) << status.error().to_string();
        EXPECT_GT(taken, 6s);
      } else {
        ASSERT_FALSE(status.has_value());
        EXPECT_THAT(status.error().text,
                    HasSubstr("did not arrive within 5000ms (DataParallelOptions::deadline"));
        EXPECT_LT(taken, 3min);
      }
    });
  }
}

// Inline sims, on which no waiter notices a hang: a step has happened on all ranks or on none, and
// the other ranks continue.
TEST(HungInlineRank, AtAnyPlaceOfAStepLeavesAllReplicasAlike) {
  for (const DeviceLossPolicy policy :
       {DeviceLossPolicy::stop, DeviceLossPolicy::shrink, DeviceLossPolicy::replace}) {
    for (std::uint64_t submit = 20; submit < 320; submit += 23) {
      ManualExecutor executor;
      executor.run([&] {
        bool is_first = true;
        const Runtime runtime(
            two_sims_of(executor),
            {.make = [&](const BackendRequest& request) -> std::unique_ptr<Backend> {
              const bool hangs = request.name == "sim:1" && std::exchange(is_first, false);
              return std::make_unique<sim::SimBackend>(sim::SimOptions{
                  .name = request.name, .faults = {.hanging_submit = hangs ? submit : 0}});
            }});
        DataParallel<TinyNet, Samples> trainer(runtime,
                                               tiny_net(runtime.device("sim:0")),
                                               loss_in<TinyNet>(DType::f32),
                                               {.devices = runtime.devices(),
                                                .optimizer = Sgd::Config{.learning_rate = 0.05},
                                                .on_loss = policy});
        int happened = 0;
        for (std::uint64_t step = 0; step < 3; ++step) {
          try {
            static_cast<void>(trainer.step([&](const std::vector<Device>& ranks) {
              return divide(random_samples(4, TinyNet::kSide, step),
                            static_cast<int>(ranks.size()));
            }));
            ++happened;
          } catch (const Exception& error) {
            EXPECT_EQ(policy, DeviceLossPolicy::stop)
                << "submit " << submit << ": " << error.what();
          }
        }
        EXPECT_EQ(happened == 3 || policy == DeviceLossPolicy::stop, true) << submit;
        if (policy != DeviceLossPolicy::stop) {
          EXPECT_TRUE(has_equal_replicas(trainer)) << submit;
        }
        for (const double weight : weights_of(trainer.snapshot())) {
          EXPECT_TRUE(std::isfinite(weight));
        }
      });
    }
  }
}

/// `count` examples of four numbers.
class Numbers final : public Dataset {
 public:
  [[nodiscard]] std::int64_t size() const override { return 640; }
  [[nodiscard]] Examples read(std::span<const std::int64_t> indices) const override {
    std::vector<float> inputs;
    std::vector<float> targets;
    for (const std::int64_t index : indices) {
      for (int i = 0; i < 4; ++i) {
        inputs.push_back(static_cast<float>(index % (7 + i)) / 7);
      }
      targets.push_back(static_cast<float>(index % 3));
    }
    const auto rows = static_cast<std::int64_t>(indices.size());
    return {.inputs = HostArray::from(inputs, {rows, 4}),
            .targets = HostArray::from(targets, {rows, 1})};
  }
};

/// By device, the rows of each of its shards.
using Rows = std::map<std::string, std::vector<std::int64_t>>;

struct Trained {
  Rows rows;
  std::vector<double> weights;
};

Trained train(ShardSizes shards, Pace slow, bool deterministic = false) {
  Trained result;
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime(two_sims_of(executor, deterministic),
                          paced({{"sim:0", {.row = 10us}}, {"sim:1", slow}}));
    Generator generator(1);
    const Linear model({.in = 4, .out = 1}, runtime.device("sim:0"), generator);
    const auto rows = std::make_shared<Rows>();
    const auto loss = [rows](const Linear& net, Batch& batch, const LossContext& context) {
      (*rows)[context.device.name()].push_back(batch.size);
      return mse_loss(net.forward(batch.inputs), batch.targets);
    };
    Trainer trainer(runtime,
                    model,
                    loss,
                    {.devices = runtime.devices(),
                     .epochs = 1,
                     .optimizer = Sgd::Config{.learning_rate = 0.05},
                     .batch_size = 32,
                     .shards = shards,
                     .console = {.style = ConsoleStyle::silent}});
    static_cast<void>(trainer.fit(Numbers()));
    result.weights = weights_of(trainer.model());
    result.rows = *rows;
  });
  return result;
}

TEST(SlowRank, GetsTheSmallerPartOfABatch) {
  const Trained balanced = train(ShardSizes::by_speed, {.row = 30us});
  const Trained even = train(ShardSizes::equal, {.row = 30us});
  const Trained fixed = train(ShardSizes::by_speed, {.row = 30us}, true);
  const auto& fast = balanced.rows.at("sim:0");
  const auto& slow = balanced.rows.at("sim:1");
  EXPECT_EQ(fast.front(), 16);
  EXPECT_GT(fast.back(), 20);
  EXPECT_EQ(fast.back() + slow.back(), 32) << "no row is lost";
  for (const Trained& each : {even, fixed}) {
    for (const auto& [device, rows] : each.rows) {
      EXPECT_TRUE(std::ranges::all_of(rows, [](std::int64_t size) { return size == 16; }));
    }
  }
  ASSERT_EQ(balanced.weights.size(), even.weights.size());
  for (std::size_t i = 0; i < even.weights.size(); ++i) {
    EXPECT_NEAR(balanced.weights[i], even.weights[i], 1e-4) << "each step is that of its batch";
  }
}

}  // namespace
}  // namespace hearth
