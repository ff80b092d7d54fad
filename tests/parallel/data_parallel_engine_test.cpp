// The trainer with engines that delay buckets, lose them or fail, and with a device that cannot
// prepare a step.
#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include <hearth/parallel/inproc_collective.hpp>

#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

// Forwards calls until the test makes it delay, refuse or drop them, or throw.
class UnreliableEngine final : public Collective {
 public:
  enum class Mode : std::uint8_t { pass, keep, refuse, drop, throw_at_once, keep_and_throw };
  struct Kept {
    std::vector<LentRegion> regions;
    ReduceOp op;
    Finished finished;
  };

  void all_reduce(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override {
    switch (mode.load(std::memory_order_acquire)) {
      case Mode::pass:
        inproc.all_reduce(std::move(regions), op, std::move(finished));
        return;
      case Mode::keep:
        kept.push({std::move(regions), op, std::move(finished)});
        return;
      case Mode::refuse:
        inproc.all_reduce({}, op, std::move(finished));
        return;  // the regions are returned as cancelled
      case Mode::drop:
        return;
      case Mode::throw_at_once:
        throw std::runtime_error("no route to the switch");
      case Mode::keep_and_throw:
        kept.push({std::move(regions), op, std::move(finished)});
        throw std::runtime_error("no route to the switch");
    }
  }
  void reduce_scatter(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override {
    inproc.reduce_scatter(std::move(regions), op, std::move(finished));
  }
  void all_gather(std::vector<LentRegion> regions, Finished finished) override {
    inproc.all_gather(std::move(regions), std::move(finished));
  }
  void broadcast(std::vector<LentRegion> regions, int root, Finished finished) override {
    inproc.broadcast(std::move(regions), root, std::move(finished));
  }
  void release(Kept bucket) {
    inproc.all_reduce(std::move(bucket.regions), bucket.op, std::move(bucket.finished));
  }

  InprocCollective inproc;
  std::atomic<Mode> mode{Mode::pass};
  detail::Mailbox<Kept> kept;
};
using Mode = UnreliableEngine::Mode;

TinyNet tiny_net(const Device& device) {
  Generator generator(3);
  return TinyNet(device, generator, DType::f32);
}

struct Training {
  explicit Training(UnreliableEngine& engine,
                    detail::Executor* executor = nullptr,
                    DeviceLossPolicy policy = DeviceLossPolicy::stop)
      : runtime(cpu_devices(2, executor)),
        trainer(runtime,
                tiny_net(runtime.device("cpu:0")),
                loss_in<TinyNet>(DType::f32),
                {.devices = runtime.devices(),
                 .optimizer = Sgd::Config{.learning_rate = 0.05},
                 .bucket_bytes = 1,
                 .step_limit = std::chrono::seconds(20),
                 .engine = &engine,
                 .on_loss = policy}) {}
  std::vector<Samples> batch() { return divide(random_samples(6, TinyNet::kSide, 1), 2); }
  std::uint64_t kernels() { return runtime.device("cpu:0").statistics().kernels; }

  Runtime runtime;
  DataParallel<TinyNet, Samples> trainer;
};

// Kernels of a step on a rank's device after its first bucket: the updates of the four used
// parameters, and the copy of the zero gradients of `unused.weight` for its bucket.
constexpr std::uint64_t kBehindTheFirst = 4 + 1;

// The sweep of a rank does not wait for its buckets. With the first one delayed, all kernels of the
// step run except the updates and the lending of the other buckets.
TEST(DataParallelEngine, TheSweepGoesOnWhileABucketIsReduced) {
  ManualExecutor executor;
  executor.run([&] {
    UnreliableEngine engine;
    Training training(engine, &executor);
    training.trainer.step(training.batch());
    const std::uint64_t start = training.kernels();
    training.trainer.step(training.batch());
    const std::uint64_t in_a_step = training.kernels() - start;
    engine.mode.store(Mode::keep, std::memory_order_release);
    const Pending<DataParallelReport> step = training.trainer.step_later(training.batch());
    std::optional<UnreliableEngine::Kept> first = engine.kept.pop(Deadline::in(kDefaultWait));
    ASSERT_TRUE(first.has_value());
    engine.mode.store(Mode::pass, std::memory_order_release);
    // Virtual time passes only when no thread can run.
    detail::current_context().parker().park(Deadline::in(std::chrono::milliseconds(1)));
    EXPECT_EQ(training.kernels() - start, in_a_step + in_a_step - kBehindTheFirst);
    EXPECT_FALSE(step.is_ready());
    engine.release(std::move(*first));
    EXPECT_TRUE(step.wait().has_value());
    EXPECT_EQ(training.kernels() - start, in_a_step + in_a_step);
    EXPECT_TRUE(has_equal_replicas(training.trainer));
  });
}

TEST(DataParallelEngine, ARefusedBucketEndsTheStepOnAllRanks) {
  UnreliableEngine engine;
  Training training(engine);
  const std::vector<double> before = weights_of(training.trainer.snapshot());
  engine.mode.store(Mode::refuse, std::memory_order_release);
  EXPECT_FALSE(training.trainer.step_later(training.batch()).wait().has_value());
  engine.mode.store(Mode::pass, std::memory_order_release);
  EXPECT_EQ(weights_of(training.trainer.snapshot()), before);
  EXPECT_TRUE(has_equal_replicas(training.trainer));
  training.trainer.step(training.batch());
  EXPECT_TRUE(has_equal_replicas(training.trainer));
}

// In virtual time, where waiting for a deadline would show. All ranks stay, and the next step runs.
TEST(DataParallelEngine, AnEngineThatThrowsOrDropsABucketEndsTheStepAtOnceOnAllRanks) {
  for (const DeviceLossPolicy policy : {DeviceLossPolicy::stop, DeviceLossPolicy::shrink}) {
    for (const Mode mode : {Mode::throw_at_once, Mode::keep_and_throw, Mode::drop}) {
      ManualExecutor executor;
      executor.run([&] {
        UnreliableEngine engine;
        Training training(engine, &executor, policy);
        const std::vector<double> before = weights_of(training.trainer.snapshot());
        const detail::TimePoint start = detail::current_context().clock().now();
        engine.mode.store(mode, std::memory_order_release);
        const Status status = training.trainer.step_later(training.batch()).wait();
        ASSERT_FALSE(status.has_value());
        EXPECT_EQ(status.error().code, ErrorCode::collective_failed);
        EXPECT_THAT(status.error().text,
                    HasSubstr(mode == Mode::drop ? "never called `finished`"
                                                 : "engine threw: no route to the switch"));
        engine.mode.store(Mode::pass, std::memory_order_release);
        EXPECT_EQ(weights_of(training.trainer.snapshot()), before);
        while (std::optional<UnreliableEngine::Kept> bucket = engine.kept.try_pop()) {
          engine.release(std::move(*bucket));
        }
        training.trainer.step(training.batch());
        EXPECT_EQ(training.trainer.world(), 2);
        EXPECT_TRUE(has_equal_replicas(training.trainer));
        EXPECT_LT(detail::current_context().clock().now() - start, std::chrono::seconds(1));
      });
    }
  }
}

// In virtual time, so the test does not wait five real seconds. The engine still holds the bytes of
// that step while the next one runs.
TEST(DataParallelEngine, ABucketThatTheEngineKeepsEndsTheStepAtTheDeadline) {
  ManualExecutor executor;
  executor.run([&] {
    UnreliableEngine engine;
    Training training(engine, &executor);
    const std::vector<double> before = weights_of(training.trainer.snapshot());
    engine.mode.store(Mode::keep, std::memory_order_release);
    const detail::TimePoint start = detail::current_context().clock().now();
    const Status status = training.trainer.step_later(training.batch()).wait();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(detail::current_context().clock().now() - start, std::chrono::seconds(5));
    const Error& error = status.error();
    EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
    EXPECT_THAT(error.text, HasSubstr("bucket 0 of 6: the engine did not arrive within 5000ms"));
    EXPECT_THAT(error.report(), HasSubstr("step 1, bucket 0 waits for the engine: 0.000 s more"));
    EXPECT_THAT(error.report(), HasSubstr("waits for the bytes of loan"));
    EXPECT_THAT(error.report(), HasSubstr("worker 1 on cpu:1: runs one"));
    engine.mode.store(Mode::pass, std::memory_order_release);
    EXPECT_EQ(weights_of(training.trainer.snapshot()), before);
    EXPECT_EQ(detail::current_context().clock().now() - start, std::chrono::seconds(5));
    training.trainer.step(training.batch());
    EXPECT_TRUE(has_equal_replicas(training.trainer));
    const std::vector<double> after = weights_of(training.trainer.snapshot());
    while (std::optional<UnreliableEngine::Kept> bucket = engine.kept.try_pop()) {
      engine.release(std::move(*bucket));
    }
    EXPECT_EQ(weights_of(training.trainer.snapshot()), after) << "what it writes late goes nowhere";
    training.trainer.step(training.batch());
    EXPECT_TRUE(has_equal_replicas(training.trainer));
  });
}

// One large tensor. A second handle on it prevents the update in place, so a device with room for
// two of its size, but not for three, cannot prepare it.
struct Big {
  static constexpr std::int64_t kCount = 1 << 20;
  Tensor weight;
  HEARTH_MODULE(Big, weight)
};

struct Unit {
  std::int64_t size = 1;
};

TEST(DataParallelEngine, ARankWithoutMemoryForTheUpdateKeepsAllFromIt) {
  constexpr std::int64_t kBytes = 4 * Big::kCount;
  RuntimeOptions options = cpu_devices(2);
  options.devices[1].memory_budget_bytes = 5 * kBytes / 2;
  const Runtime runtime(std::move(options));
  detail::Mailbox<Tensor> held;
  std::atomic<bool> holds{false};
  const auto loss = [&](const Big& model, Unit&, WorkerContext& context) {
    if (context.rank == 1 && holds.load(std::memory_order_acquire)) {
      held.push(model.weight.detach());
    }
    return mean(model.weight);
  };
  DataParallel<Big, Unit> trainer(
      runtime,
      Big{ones(runtime.device("cpu:0"), {Big::kCount})},
      loss,
      {.devices = runtime.devices(), .optimizer = Sgd::Config{.learning_rate = Big::kCount}});
  const auto first_weights = [&] {
    return trainer.evaluate([](const Big& model, WorkerContext&) {
      return static_cast<double>(slice(model.weight, 0, {.stop = 1}).item());
    });
  };
  trainer.step({Unit{}, Unit{}});
  EXPECT_EQ(first_weights(), (std::vector<double>{0, 0}));
  holds.store(true, std::memory_order_release);
  const Status status = trainer.step_later({Unit{}, Unit{}}).wait();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::out_of_memory) << status.error().to_string();
  EXPECT_EQ(first_weights(), (std::vector<double>{0, 0}));
  holds.store(false, std::memory_order_release);
  EXPECT_TRUE(held.try_pop().has_value());
  trainer.step({Unit{}, Unit{}});
  EXPECT_EQ(first_weights(), (std::vector<double>{-1, -1}));
}

}  // namespace
}  // namespace hearth
