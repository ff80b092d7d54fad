// Hangs in a step (a collective, a kernel on one device) are reported at the deadline with the
// waiting threads. The process survives, the other devices work, and when the hang ends the
// training continues.
#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include <hearth/parallel/inproc_collective.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include "tests/runtime/stuck_backend.hpp"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Trainer = DataParallel<TinyNet, Samples>;

// While armed, its work on the first rank's device does not return before release().
class HangingEngine final : public Collective {
 public:
  void all_reduce(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override {
    if (hangs.exchange(false, std::memory_order_acq_rel)) {
      regions.front().run_on_device([released = released_] {
        static_cast<void>(released->wait({.deadline = Deadline::never()}));
      });
    }
    inproc_.all_reduce(std::move(regions), op, std::move(finished));
  }
  void reduce_scatter(std::vector<LentRegion> regions, ReduceOp op, Finished finished) override {
    inproc_.reduce_scatter(std::move(regions), op, std::move(finished));
  }
  void all_gather(std::vector<LentRegion> regions, Finished finished) override {
    inproc_.all_gather(std::move(regions), std::move(finished));
  }
  void broadcast(std::vector<LentRegion> regions, int root, Finished finished) override {
    inproc_.broadcast(std::move(regions), root, std::move(finished));
  }
  void release() { release_.set_value(); }

  std::atomic<bool> hangs{false};

 private:
  InprocCollective inproc_;
  Promise<void> release_;
  const std::shared_ptr<const Pending<void>> released_ =
      std::make_shared<const Pending<void>>(release_.pending());
};

Runtime three_sims(detail::Executor* executor, const detail::BackendFactory& factory = {}) {
  return Runtime(
      {.devices = {{.name = "sim:0"}, {.name = "sim:1"}, {.name = "sim:2"}}, .executor = executor},
      factory);
}

std::vector<Samples> batch_of(int step) {
  return divide(random_samples(6, TinyNet::kSide, static_cast<std::uint64_t>(step)), 2);
}

// Trains on the first two devices.
class Training {
 public:
  explicit Training(const Runtime& runtime, DataParallelOptions options = {})
      : trainer(runtime,
                first_model(runtime),
                loss_in<TinyNet>(DType::f32),
                complete(runtime, std::move(options))) {}

  Trainer trainer;

 private:
  static TinyNet first_model(const Runtime& runtime) {
    Generator generator(3);
    return TinyNet(runtime.device("sim:0"), generator, DType::f32);
  }
  static DataParallelOptions complete(const Runtime& runtime, DataParallelOptions options) {
    options.devices = {runtime.device("sim:0"), runtime.device("sim:1")};
    options.optimizer = Sgd::Config{.learning_rate = 0.05};
    return options;
  }
};

std::vector<double> weights_after(const std::vector<int>& steps) {
  std::vector<double> weights;
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime = three_sims(&executor);
    Training training(runtime);
    for (const int step : steps) {
      training.trainer.step(batch_of(step));
    }
    weights = weights_of(training.trainer.snapshot());
  });
  return weights;
}

void expect_wait_graph(const Error& error) {
  EXPECT_EQ(error.code, ErrorCode::deadline_exceeded);
  EXPECT_THAT(error.text, HasSubstr("step 2, bucket 0 of 1: the engine did not arrive within"));
  for (const char* line : {"thread coordinator (number ",
                           "waits for a data-parallel step: ",
                           "device sim:0: thread number ",
                           "device sim:1: generation 0, alive",
                           ": 1 ops queued, waits for the bytes of loan",
                           "waits for a tensor that another stream has not made yet",
                           "worker 0 on sim:0: runs one",
                           "worker 1 on sim:1: runs one",
                           "step 2, bucket 0 waits for the engine: 0.000 s more",
                           "step 2: rank 0 on sim:0 is not done"}) {
    EXPECT_THAT(error.report(), HasSubstr(line));
  }
}

TEST(DataParallelHang, AHangInACollectiveIsReportedWithinItsDeadlineAndTheProcessLives) {
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime = three_sims(&executor);
    HangingEngine engine;
    Training training(runtime, {.engine = &engine});
    training.trainer.step(batch_of(0));
    engine.hangs.store(true, std::memory_order_release);
    const detail::TimePoint start = detail::current_context().clock().now();
    const Status status = training.trainer.step_later(batch_of(1)).wait();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(detail::current_context().clock().now() - start, 5s + detail::Watchdog::kAnswerLimit);
    expect_wait_graph(status.error());
    EXPECT_EQ(sum(ones(runtime.device("sim:1"), {3})).item(), 3);
    EXPECT_EQ(sum(ones(runtime.device("sim:2"), {3})).item(), 3);
    engine.release();
    training.trainer.step(batch_of(2));
    EXPECT_TRUE(has_equal_replicas(training.trainer));
    EXPECT_EQ(weights_of(training.trainer.snapshot()), weights_after({0, 2}));
  });
}

// No rank missed its deadline; the device hangs.
TEST(DataParallelHang, ADeviceThatACollectiveKeepsIsGoneOnWithoutUnderShrink) {
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime = three_sims(&executor);
    HangingEngine engine;
    Training training(runtime, {.engine = &engine, .on_loss = DeviceLossPolicy::shrink});
    training.trainer.step(batch_of(0));
    engine.hangs.store(true, std::memory_order_release);
    const detail::TimePoint start = detail::current_context().clock().now();
    const DataParallelReport report = training.trainer.step([](const std::vector<Device>& ranks) {
      return divide(random_samples(6, TinyNet::kSide, 1), static_cast<int>(ranks.size()));
    });
    EXPECT_LT(detail::current_context().clock().now() - start, 10s);
    EXPECT_EQ(report.step, 3);
    EXPECT_EQ(training.trainer.devices(), std::vector<Device>{runtime.device("sim:1")});
    engine.release();
  });
}

// The test controls neither the order of threads nor which thread answers the report in time.
TEST(DataParallelHang, ThreadsReportAHangInACollectiveToo) {
  const Runtime runtime = three_sims(nullptr);
  HangingEngine engine;
  Training training(runtime, {.deadline = 2s, .engine = &engine});
  training.trainer.step(batch_of(0));
  engine.hangs.store(true, std::memory_order_release);
  const Status status = training.trainer.step_later(batch_of(1)).wait();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::deadline_exceeded);
  EXPECT_THAT(status.error().text,
              HasSubstr("step 2, bucket 0 of 1: the engine did not arrive within"));
  EXPECT_EQ(sum(ones(runtime.device("sim:2"), {3})).item(), 3);
  engine.release();
  training.trainer.step(batch_of(2));
  EXPECT_TRUE(has_equal_replicas(training.trainer));
  EXPECT_EQ(weights_of(training.trainer.snapshot()), weights_after({0, 2}));
}

TEST(DataParallelHang, ATrainerThatIsDestroyedWaitsForNoHang) {
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime = three_sims(&executor);
    HangingEngine engine;
    const detail::TimePoint start = detail::current_context().clock().now();
    {
      Training training(runtime, {.engine = &engine});
      engine.hangs.store(true, std::memory_order_release);
      const Pending<DataParallelReport> step = training.trainer.step_later(batch_of(0));
      EXPECT_FALSE(detail::PendingAccess::is_ready_by(step, Deadline::in(1s)));
    }
    EXPECT_EQ(detail::current_context().clock().now() - start, 1s);
    engine.release();
  });
}

// A rank abandoned during its commit fails while all wait for it to mend another rank.
TEST(DataParallelHang, ARankThatFailsWhileOthersAreMendedIsMendedToo) {
  int late_failures = 0;
  for (std::uint64_t submit = 20; submit < 140; submit += 2) {
    SCOPED_TRACE("submit " + std::to_string(submit));
    StuckControl control(submit);
    control.fails_when_released = true;
    const detail::BackendFactory factory = stuck(control, "sim:1");
    ManualExecutor executor;
    executor.run([&] {
      const Runtime runtime = three_sims(&executor, factory);
      Generator generator(3);
      Trainer trainer(runtime,
                      TinyNet(runtime.device("sim:0"), generator, DType::f32),
                      loss_in<TinyNet>(DType::f32),
                      {.devices = runtime.devices(), .on_loss = DeviceLossPolicy::replace});
      const Samples samples = random_samples(6, TinyNet::kSide, 1);
      ErrorRef late;
      for (int step = 0; step < 4 && !late; ++step) {
        Pending<DataParallelReport> report = trainer.step_later(divide(samples, 3));
        if (!report.wait().has_value()) {
          break;  // it hung before the commit
        }
        late = report.get().late_failure;
      }
      if (late) {
        ++late_failures;
        runtime.device("sim:0").restart();
      }
      const auto rescue = executor.spawn({.name = "rescue"}, [&] {
        const Deadline end = Deadline::in(1s);
        while (!end.has_passed()) {
          detail::current_context().parker().park(end);
        }
        control.release.set_value();
      });
      if (late) {
        trainer.step(divide(samples, 3));
        EXPECT_TRUE(has_equal_replicas(trainer));
      }
      rescue->join();
    });
  }
  EXPECT_GT(late_failures, 3);
}

// An update of the replicas fails on all ranks, and the first rank has not committed the previous
// step.
TEST(DataParallelHang, ARankThatFellBehindGivesNobodyItsState) {
  int late_failures = 0;
  for (std::uint64_t submit = 20; submit < 140; submit += 2) {
    SCOPED_TRACE("submit " + std::to_string(submit));
    StuckControl control(submit);
    control.fails_when_released = true;
    control.release.set_value();
    const detail::BackendFactory factory = stuck(control, "sim:0");
    ManualExecutor executor;
    executor.run([&] {
      const Runtime runtime = three_sims(&executor, factory);
      Generator generator(3);
      Trainer trainer(runtime,
                      TinyNet(runtime.device("sim:2"), generator, DType::f32),
                      loss_in<TinyNet>(DType::f32),
                      {.devices = runtime.devices()});
      for (int step = 0; step < 4; ++step) {
        Pending<DataParallelReport> report =
            trainer.step_later(divide(random_samples(6, TinyNet::kSide, 1), 3));
        EXPECT_THROW(trainer.set_learning_rate(-1), Exception);
        late_failures += report.wait().has_value() && report.get().late_failure ? 1 : 0;
      }
      control.stuck_at = 0;  // otherwise reading the weights fails
      EXPECT_TRUE(has_equal_replicas(trainer));
    });
  }
  EXPECT_GT(late_failures, 3);
}

}  // namespace
}  // namespace hearth
