// Trainings whose products run another candidate at each launch: no bit of any run may differ from
// that of the rules.
#include <hearth/parallel/trainer.hpp>

#include "digits_run.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/forwarding_backend.hpp"

#include <hearth/backends/builtin/builtin.hpp>

#include "runtime/device/backend_factory.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words

/// Wide enough that most products have candidates.
struct WideNet {
  Linear first, second, third;

  explicit WideNet(const Device& device) : WideNet(device, Generator(1)) {}
  WideNet(const Device& device, Generator generator)
      : first({.in = 784, .out = 96}, device, generator),
        second({.in = 96, .out = 80}, device, generator),
        third({.in = 80, .out = 10}, device, generator) {}
  [[nodiscard]] Tensor forward(const Tensor& x, Mode /*mode*/) const {
    return third.forward(relu(second.forward(relu(first.forward(flatten(x, 1))))));
  }
  HEARTH_MODULE(WideNet, first, second, third)
};

/// A cpu backend whose products run a random candidate at each launch.
class FlippingBackend final : public ForwardingBackend {
 public:
  FlippingBackend(std::unique_ptr<Backend> inner, std::uint32_t seed, std::atomic<int>& flips)
      : ForwardingBackend(std::move(inner)), engine_(seed), flips_(flips) {}

 private:
  [[nodiscard]] Issue submit_one(const Launch& launch, Points after) override {
    Launch flipped = launch;
    const std::vector<detail::Candidate> list = candidates(launch.call);
    if (!list.empty()) {
      flipped.pick = list[engine_() % list.size()].id;
      flips_ += flipped.pick != detail::kRulePick ? 1 : 0;
    }
    return ForwardingBackend::submit_one(flipped, after);
  }

  std::mt19937 engine_;
  std::atomic<int>& flips_;
};

struct Bits {
  std::vector<double> weights;
  std::vector<double> losses;

  friend bool operator==(const Bits&, const Bits&) = default;
};

class FlippedPicks : public ::testing::Test {
 protected:
  /// Trains on `world` devices. `seed`: of the picks; nothing: the rules.
  Bits train(int world, std::optional<std::uint32_t> seed, TrainerOptions options) {
    detail::BackendFactory factory;
    if (seed.has_value()) {
      factory.make = [this, next = *seed](const BackendRequest& request) mutable {
        return std::make_unique<FlippingBackend>(make_backend(request).value(), ++next, flips);
      };
    }
    RuntimeOptions opened = cpu_devices(world);
    opened.autotune = AutotuneLevel::off;
    const Runtime runtime(opened, factory);
    options.devices = runtime.devices();
    Trainer<WideNet> trainer(runtime, WideNet(options.devices.front()), kLoss, options);
    const TrainingResult result = trainer.fit(data);
    Bits bits{.weights = weights_of(trainer.model()), .losses = {}};
    for (const EpochRecord& epoch : result.history.epochs) {
      bits.losses.push_back(epoch.train_loss);
    }
    return bits;
  }
  /// Options of a run of `steps` steps, five an epoch.
  static TrainerOptions options(std::int64_t steps) {
    TrainerOptions made;
    made.epochs = steps / 5;
    made.optimizer = Adam::Config{.learning_rate = 2e-3};
    made.seed = 5;
    made.batch_size = 32;
    made.shards = ShardSizes::equal;
    made.console.style = ConsoleStyle::silent;
    return made;
  }

  const ImageDataset data{make_digits({.count = 160})};
  std::atomic<int> flips{0};
};

TEST_F(FlippedPicks, FiveHundredStepsHaveTheBitsOfTheRules) {
  const Bits expected = train(1, std::nullopt, options(500));
  EXPECT_TRUE(train(1, 1, options(500)) == expected);
  EXPECT_GT(flips, 500) << "at least one in each step";
}

TEST_F(FlippedPicks, AResumedRunHasTheBitsOfTheRules) {
  const Bits expected = train(1, std::nullopt, options(60));
  const TemporaryFolder folder;
  TrainerOptions first = options(60);
  first.folder = folder.path();
  first.callbacks = {{.on_step = [](const TrainingStep& step, RunControl& control) {
    control.stop = step.step == 37;
  }}};
  static_cast<void>(train(1, 2, first));
  TrainerOptions rest = options(60);
  rest.folder = folder.path();
  rest.resume = true;
  EXPECT_TRUE(train(1, 3, rest) == expected);
  EXPECT_GT(flips, 60);
}

TEST_F(FlippedPicks, TwoRanksWithOtherPicksHaveTheBitsOfTheRules) {
  const Bits expected = train(2, std::nullopt, options(60));
  EXPECT_TRUE(train(2, 4, options(60)) == expected);
  EXPECT_GT(flips, 60);
}

}  // namespace
}  // namespace hearth
