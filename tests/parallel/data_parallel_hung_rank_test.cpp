// What a trainer does when one of its ranks hangs, in a kernel at every place of a step or in its
// loss function: within 10 s it goes on without it or with another in its place, from the last step
// that happened, and the thread that hangs is left behind.
#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include <hearth/runtime/base/manual_executor.hpp>

#include "tests/runtime/stuck_backend.hpp"

#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Trainer = DataParallel<TinyNet, Samples>;

constexpr int kWorld = 4;
constexpr int kSteps = 4;
constexpr std::int64_t kBatch = 13;
const std::string kHung = "sim:1";

std::string name_of(int rank) {
  return "sim:" + std::to_string(rank);
}

void pass(Duration time) {
  const Deadline end = Deadline::in(time);
  while (!end.has_passed()) {
    current_context().parker().park(end);
  }
}

// A loss function that, on kHung and when its turn comes, waits until it is let go, or for some
// time.
struct Trap {
  int call = 0;  ///< The how-manyth call does; 0: none.
  Duration time = Duration::zero();
  Promise<void> release;
  Pending<void> released = release.pending();
  int calls = 0;
};

auto trapped(std::shared_ptr<Trap> trap) {
  return [trap = std::move(trap)](const TinyNet& model, Samples& shard, WorkerContext& context) {
    if (context.device.name() == kHung && ++trap->calls == trap->call) {
      if (trap->time != Duration::zero()) {
        pass(trap->time);
      } else {
        static_cast<void>(trap->released.wait(Deadline::never()));
      }
    }
    return mean_loss(model, shard, context.device, DType::f32);
  };
}

struct Options {
  std::uint64_t stuck_at = 0;               ///< The kernel of kHung that does not come back.
  int trapped_call = 0;                     ///< The loss of kHung that does not come back …
  Duration trapped_for = Duration::zero();  ///< … or is so late.
  DeviceLossPolicy policy = DeviceLossPolicy::shrink;
  bool has_spare = false;
  double drop = 0;
  OptimizerConfig optimizer = Sgd::Config{.learning_rate = 0.05};
};

struct Trained {
  std::vector<double> weights;
  std::vector<std::size_t> worlds;   ///< By step.
  std::vector<std::string> devices;  ///< At the end.
  bool has_hung = false;
};

// All that a training needs, of which a thread that is left behind may outlive the trainer only.
class Hall {
 public:
  Hall(Executor* executor, const Options& options)
      : control(options.stuck_at),
        factory_(stuck(control, kHung)),
        runtime(runtime_options(executor)) {
    trap->call = options.trapped_call;
    trap->time = options.trapped_for;
  }
  Hall(const Hall&) = delete;
  Hall& operator=(const Hall&) = delete;
  ~Hall() {  // whatever a test says, nobody hangs for ever
    control.release.set_value();
    trap->release.set_value();
    pass(1s);
  }
  [[nodiscard]] TinyNet first_model(double drop) const {
    Generator generator(3);
    return TinyNet(runtime.device(name_of(0)), generator, DType::f32, drop);
  }
  [[nodiscard]] Trainer trainer(const Options& options) const {
    return trainer_of(first_model(options.drop), kWorld, options);
  }
  [[nodiscard]] Trainer trainer_of(TinyNet model, std::size_t world, const Options& options) const {
    const std::vector<Device> all = runtime.devices();
    return Trainer(
        runtime,
        std::move(model),
        trapped(trap),
        {.devices = {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(world)},
         .optimizer = options.optimizer,
         .bucket_bytes = 256,
         .seed = 5,
         .on_loss = options.policy,
         .spares = options.has_spare ? std::vector<Device>{all.back()} : std::vector<Device>{}});
  }

  StuckControl control;
  const std::shared_ptr<Trap> trap = std::make_shared<Trap>();

 private:
  RuntimeOptions runtime_options(Executor* executor) const {
    RuntimeOptions options{.devices = {}, .executor = executor, .backend_factory = &factory_};
    for (int i = 0; i < kWorld + 1; ++i) {
      options.devices.push_back({.name = name_of(i)});
    }
    return options;
  }
  const BackendFactory factory_;

 public:
  const Runtime runtime;
};

Samples batch_of(int step) {
  return random_samples(kBatch, TinyNet::kSide, static_cast<std::uint64_t>(step));
}

Trained train_in(Hall& hall, Trainer& trainer) {
  Trained result;
  for (int step = 0; step < kSteps; ++step) {
    const TimePoint start = current_context().clock().now();
    std::size_t world = 0;
    trainer.step([&](const std::vector<Device>& ranks) {
      world = ranks.size();
      return divide(batch_of(step), static_cast<int>(world));
    });
    EXPECT_LT(current_context().clock().now() - start, 10s);
    result.worlds.push_back(world);
  }
  result.has_hung = hall.control.is_in.is_ready() ||
                    (hall.trap->call != 0 && hall.trap->calls >= hall.trap->call);
  hall.control.stuck_at = 0;  // else it would be looking at the weights that hangs
  for (const Device& device : trainer.devices()) {
    result.devices.push_back(device.name());
  }
  EXPECT_TRUE(has_equal_replicas(trainer));
  result.weights = weights_of(trainer.snapshot());
  return result;
}

Trained train(const Options& options, std::uint64_t seed = 0) {
  Trained result;
  ManualExecutor executor(seed);
  executor.run([&] {
    Hall hall(&executor, options);
    Trainer trainer = hall.trainer(options);
    result = train_in(hall, trainer);
  });
  return result;
}

// The steps with four ranks, then those with three, by trainers in which nobody hangs.
std::vector<double> train_honestly(const std::vector<std::size_t>& worlds) {
  std::vector<double> weights;
  ManualExecutor executor;
  executor.run([&] {
    const Hall hall(&executor, {});
    TinyNet model = hall.first_model(0);
    for (std::size_t step = 0; step < worlds.size();) {
      const std::size_t world = worlds[step];
      Trainer trainer = hall.trainer_of(std::move(model), world, {});
      for (; step < worlds.size() && worlds[step] == world; ++step) {
        trainer.step(divide(batch_of(static_cast<int>(step)), static_cast<int>(world)));
      }
      model = trainer.take_model();
    }
    weights = weights_of(model);
  });
  return weights;
}

// A kernel hangs, at one submit after the other, from the first step to the last.
void for_each_hang(Options options,
                   std::uint64_t stride,
                   const std::function<void(const Trained&)>& check) {
  int hangs = 0;
  for (options.stuck_at = 20;; options.stuck_at += stride) {
    SCOPED_TRACE("stuck at submit " + std::to_string(options.stuck_at));
    const Trained trained = train(options);
    if (!trained.has_hung) {
      EXPECT_GT(hangs, 20);
      return;
    }
    ++hangs;
    check(trained);
    if (::testing::Test::HasFailure()) {
      return;
    }
  }
}

TEST(DataParallelHungRank, ShrinkGoesOnAsARunWithoutTheRankWould) {
  std::map<std::vector<std::size_t>, std::vector<double>> honest;
  for_each_hang({.policy = DeviceLossPolicy::shrink}, 3, [&](const Trained& trained) {
    std::vector<double>& expected = honest[trained.worlds];
    if (expected.empty()) {
      expected = train_honestly(trained.worlds);
    }
    EXPECT_EQ(trained.weights, expected);
    EXPECT_THAT(trained.devices, ElementsAre("sim:0", "sim:2", "sim:3"));
  });
  EXPECT_GE(honest.size(), 4U) << "a hang in each step";
}

TEST(DataParallelHungRank, ALossFunctionThatHangsIsLeftBehindAndTheOthersGoOn) {
  for (int call = 1; call <= kSteps; ++call) {
    const Trained trained = train({.trapped_call = call});
    EXPECT_TRUE(trained.has_hung);
    std::vector<std::size_t> worlds(kSteps, kWorld - 1);
    std::fill_n(worlds.begin(), call - 1, kWorld);
    EXPECT_EQ(trained.worlds, worlds);
    EXPECT_EQ(trained.weights, train_honestly(worlds));
  }
}

TEST(DataParallelHungRank, ASpareGoesOnAsIfNobodyHadHung) {
  const OptimizerConfig adam = Adam::Config{.learning_rate = 0.01};
  Options options{
      .policy = DeviceLossPolicy::replace, .has_spare = true, .drop = 0.5, .optimizer = adam};
  const Trained undisturbed = train(options);
  const auto check = [&](const Trained& trained) {
    EXPECT_EQ(trained.weights, undisturbed.weights);
    EXPECT_THAT(trained.devices, ElementsAre("sim:0", "sim:4", "sim:2", "sim:3"));
  };
  for_each_hang(options, 5, check);
  for (options.trapped_call = 1; options.trapped_call <= kSteps; ++options.trapped_call) {
    check(train(options));
  }
}

TEST(DataParallelHungRank, WithoutASpareADeviceThatAnswersGetsANewWorker) {
  Options options{.policy = DeviceLossPolicy::replace, .drop = 0.5};
  const Trained undisturbed = train(options);
  for (options.trapped_call = 1; options.trapped_call <= kSteps; ++options.trapped_call) {
    const Trained trained = train(options);
    EXPECT_TRUE(trained.has_hung);
    EXPECT_EQ(trained.weights, undisturbed.weights);
    EXPECT_EQ(trained.devices, undisturbed.devices);
  }
}

TEST(DataParallelHungRank, WithoutASpareADeviceThatDoesNotAnswerIsGoneOnWithout) {
  ManualExecutor executor;
  executor.run([&] {
    const Options options{.stuck_at = 60, .policy = DeviceLossPolicy::replace};
    Hall hall(&executor, options);
    Trainer trainer = hall.trainer(options);
    ::testing::internal::CaptureStderr();
    const Trained trained = train_in(hall, trainer);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("DataParallel: rank 1 on sim:1 hangs, it did not answer for 3000ms "
                          "after its deadline; the other ranks go on without it"));
    EXPECT_THAT(trained.devices, ElementsAre("sim:0", "sim:2", "sim:3"));
    EXPECT_EQ(trained.weights, train_honestly(trained.worlds));
  });
}

TEST(DataParallelHungRank, TheOrderOfThreadsChangesNothing) {
  std::map<std::vector<std::size_t>, std::vector<double>> honest;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Trained trained = train({.stuck_at = 20 + seed * 37 % 100}, seed);
    std::vector<double>& expected = honest[trained.worlds];
    if (expected.empty()) {
      expected = train_honestly(trained.worlds);
    }
    EXPECT_EQ(trained.weights, expected);
  }
}

// 6 s are more than the deadline, and less than both limits together.
TEST(DataParallelHungRank, ARankThatIsLateAndAnswersStays) {
  for (const DeviceLossPolicy policy : {DeviceLossPolicy::shrink, DeviceLossPolicy::replace}) {
    const Trained undisturbed = train({.policy = policy, .drop = 0.5});
    const Trained trained =
        train({.trapped_call = 2, .trapped_for = 6s, .policy = policy, .drop = 0.5});
    EXPECT_TRUE(trained.has_hung);
    EXPECT_EQ(trained.worlds, undisturbed.worlds);
    EXPECT_EQ(trained.weights, undisturbed.weights);
  }
}

TEST(DataParallelHungRank, StepsBehindTheOneThatHangsFailWithIt) {
  ManualExecutor executor;
  executor.run([&] {
    const Options options{.trapped_call = 1};
    Hall hall(&executor, options);
    Trainer trainer = hall.trainer(options);
    const TimePoint start = current_context().clock().now();
    std::vector<Pending<DataParallelReport>> steps;
    for (int step = 0; step < 3; ++step) {
      steps.push_back(trainer.step_later(divide(batch_of(step), kWorld)));
    }
    EXPECT_EQ(steps[0].wait().error().code, ErrorCode::deadline_exceeded);
    EXPECT_EQ(steps[1].wait().error().code, ErrorCode::collective_failed);
    EXPECT_EQ(steps[2].wait().error().code, ErrorCode::collective_failed);
    EXPECT_EQ(current_context().clock().now() - start, 5s) << "once, for all of them";
    EXPECT_THROW(trainer.step(divide(batch_of(0), kWorld)), ArgumentError);
    EXPECT_EQ(trainer.world(), kWorld - 1);
    trainer.step(divide(batch_of(0), kWorld - 1));
    EXPECT_EQ(weights_of(trainer.snapshot()), train_honestly({kWorld - 1}));
  });
}

TEST(DataParallelHungRank, ATrainerThatIsDestroyedLeavesALossFunctionThatHangsBehind) {
  ManualExecutor executor;
  executor.run([&] {
    const Options options{.trapped_call = 1, .policy = DeviceLossPolicy::stop};
    Hall hall(&executor, options);
    std::optional<TimePoint> start;
    {
      Trainer trainer = hall.trainer(options);
      const Pending<DataParallelReport> step = trainer.step_later(divide(batch_of(0), kWorld));
      EXPECT_FALSE(step.wait_for(1s));
      start = current_context().clock().now();
    }
    EXPECT_EQ(current_context().clock().now() - *start, kDefaultWait);
  });
}

// Nobody chooses the order of threads here, and the one that is left behind outlives the runtime.
TEST(DataParallelHungRank, ThreadsGoOnWithoutARankThatHangsToo) {
  const auto trap = std::make_shared<Trap>();
  trap->call = 2;
  {
    const Runtime runtime({.devices = {{.name = "sim:0"}, {.name = "sim:1"}, {.name = "sim:2"}}});
    Generator generator(3);
    Trainer trainer(runtime,
                    TinyNet(runtime.device("sim:0"), generator, DType::f32),
                    trapped(trap),
                    {.devices = runtime.devices(),
                     .deadline = 200ms,
                     .hang_limit = 200ms,
                     .on_loss = DeviceLossPolicy::shrink});
    for (int step = 0; step < kSteps; ++step) {
      trainer.step([&](const std::vector<Device>& ranks) {
        return divide(batch_of(step), static_cast<int>(ranks.size()));
      });
    }
    EXPECT_EQ(trainer.world(), 2);
    EXPECT_TRUE(has_equal_replicas(trainer));
  }
  trap->release.set_value();
}

}  // namespace
}  // namespace hearth
