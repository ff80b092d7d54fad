// Failures on one rank during a step: the step fails as a whole with that error, and the training
// continues from its previous state.
#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include <hearth/runtime/base/failure_book.hpp>
#include <hearth/runtime/base/mailbox.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

using Trainer = DataParallel<TinyNet, Samples>;
using Loss = Trainer::LossFn;

// Faulty behaviour of a rank while armed.
struct Sabotage {
  std::atomic<bool> is_armed{false};
  int rank = 1;
  std::function<Tensor(const TinyNet&, Samples&, WorkerContext&)> act;

  [[nodiscard]] Loss loss() {
    return [this](const TinyNet& model, Samples& shard, WorkerContext& context) {
      if (is_armed.load(std::memory_order_acquire) && context.rank == rank) {
        return act(model, shard, context);
      }
      return mean_loss(model, shard, context.device, DType::f32);
    };
  }
};

struct Options {
  int world = 3;
  std::int64_t bucket_bytes = 64;
  std::chrono::nanoseconds deadline = std::chrono::seconds(5);
  Collective* engine = nullptr;
  detail::Executor* executor = nullptr;
  OptimizerConfig optimizer = Sgd::Config{.learning_rate = 0.05, .momentum = 0.9};
};

class Training {
 public:
  explicit Training(Loss loss, const Options& options = {})
      : runtime_(cpu_devices(options.world, options.executor)),
        trainer_(runtime_, model(), std::move(loss), trainer_options(options)) {}

  [[nodiscard]] Trainer& trainer() { return trainer_; }
  [[nodiscard]] const Runtime& runtime() const { return runtime_; }
  [[nodiscard]] std::vector<Samples> batch(std::uint64_t seed) {
    return divide(random_samples(9, TinyNet::kSide, seed), trainer_.world());
  }
  DataParallelReport step(std::uint64_t seed) { return trainer_.step(batch(seed)); }
  [[nodiscard]] ErrorRef failing_step(std::uint64_t seed) {
    return trainer_.step_later(batch(seed)).wait().shared_error();
  }
  [[nodiscard]] std::vector<double> weights() { return weights_of(trainer_.snapshot()); }

 private:
  [[nodiscard]] TinyNet model() const {
    Generator generator(3);
    return TinyNet(runtime_.device("cpu:0"), generator, DType::f32);
  }
  [[nodiscard]] DataParallelOptions trainer_options(const Options& options) const {
    std::vector<Device> devices = runtime_.devices();
    return {.devices = std::move(devices),
            .optimizer = options.optimizer,
            .bucket_bytes = options.bucket_bytes,
            .deadline = options.deadline,
            .engine = options.engine};
  }

  Runtime runtime_;
  Trainer trainer_;
};

TEST(DataParallelFailure, ALossThatDependsOnNoParameterIsRefused) {
  const Loss cut_off = [](const TinyNet& model, Samples& shard, WorkerContext& context) {
    const Tensor loss = mean_loss(model, shard, context.device, DType::f32);
    return loss.to(DType::i32).to(DType::f32);
  };
  Training training(cut_off);
  const std::vector<double> before = training.weights();
  const ErrorRef error = training.failing_step(1);
  ASSERT_NE(error, nullptr);
  EXPECT_THAT(error->to_string(), HasSubstr("comes from none of the model's parameters"));
  EXPECT_EQ(training.weights(), before);
}

// With real threads; data_parallel_faults_test has the other failures in a table.
TEST(DataParallelFailure, APoisonedGradientOnOneRankEndsTheStepOnAll) {
  Sabotage sabotage;
  sabotage.act = [](const TinyNet& model, Samples& shard, WorkerContext& context) {
    shard.classes[0] = 10;  // there are ten, from 0
    return mean_loss(model, shard, context.device, DType::f32);
  };
  Training training(sabotage.loss());
  Training undisturbed(loss_in<TinyNet>(DType::f32));
  training.step(1);
  undisturbed.step(1);
  const std::vector<double> before = training.weights();
  sabotage.is_armed.store(true, std::memory_order_release);
  const ErrorRef error = training.failing_step(7);
  sabotage.is_armed.store(false, std::memory_order_release);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, ErrorCode::out_of_range);
  EXPECT_EQ(error->device, "cpu:1");
  EXPECT_THAT(error->location.file, HasSubstr("training_support.hpp"));
  EXPECT_EQ(training.weights(), before);
  for (const std::uint64_t seed : {2U, 3U}) {
    EXPECT_EQ(training.step(seed).loss, undisturbed.step(seed).loss);
  }
  EXPECT_EQ(training.weights(), undisturbed.weights());
  EXPECT_TRUE(has_equal_replicas(training.trainer()));
  EXPECT_EQ(training.trainer().statistics().failed_steps, 1U);
}

TEST(DataParallelFailure, TheFirstErrorIsThrown) {
  Sabotage sabotage;
  sabotage.act = [](const TinyNet&, Samples&, WorkerContext&) -> Tensor {
    throw std::runtime_error("no");
  };
  Training training(sabotage.loss());
  sabotage.is_armed.store(true, std::memory_order_release);
  try {
    training.step(1);
    FAIL() << "the step went through";
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::worker_failed);
  }
}

TEST(DataParallelFailure, AFailedStepWhoseReportWasDroppedIsThrownByALaterCall) {
  Sabotage sabotage;
  sabotage.act = [](const TinyNet&, Samples&, WorkerContext&) -> Tensor {
    throw std::runtime_error("the camera is off");
  };
  Training training(sabotage.loss());
  sabotage.is_armed.store(true, std::memory_order_release);
  static_cast<void>(training.trainer().step_later(training.batch(1)));
  static_cast<void>(training.weights());  // rank 0 has finished the step, so rank 1 has thrown
  sabotage.is_armed.store(false, std::memory_order_release);
  int thrown = 0;
  // The first call may precede the outcome, or run while the coordinator's thread still holds the
  // reported error: a report counts as dropped once both have released it. The coordinator releases
  // it before it decides the first call's step, so at the latest the second call throws.
  for (int call = 0; call < 3; ++call) {
    try {
      training.step(2);
    } catch (const DeviceError& error) {
      ++thrown;
      EXPECT_THAT(error.error().text, HasSubstr("dropped unread"));
      EXPECT_THAT(error.what(), HasSubstr("the camera is off"));
    }
  }
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(training.trainer().devices().front().failures().unread_count(), 0U);
}

TEST(DataParallelFailure, AnExceptionInAnEarlierMicroBatchEndsTheStep) {
  Sabotage sabotage;
  int calls = 0;
  sabotage.act = [&calls](const TinyNet& model, Samples& shard, WorkerContext& context) {
    if (++calls == 2) {
      throw std::runtime_error("the second of three");
    }
    return mean_loss(model, shard, context.device, DType::f32);
  };
  Training training(sabotage.loss());
  const std::vector<double> before = training.weights();
  sabotage.is_armed.store(true, std::memory_order_release);
  EXPECT_THROW(training.trainer().step(std::vector<std::vector<Samples>>{
                   training.batch(1), training.batch(2), training.batch(3)}),
               Exception);
  EXPECT_EQ(training.weights(), before);
}

TEST(DataParallelFailure, AFunctionThatThrowsInEvaluateIsReported) {
  Training training(loss_in<TinyNet>(DType::f32));
  const auto failing = [](const TinyNet&, WorkerContext& context) {
    if (context.rank == 1) {
      throw std::runtime_error("no data");
    }
    return context.rank;
  };
  EXPECT_THROW(training.trainer().evaluate(failing), Exception);
  training.step(1);
}

// In virtual time, so the test does not wait five real seconds.
// An update of the replicas that fails on some ranks: `fails` states for each rank whether it
// fails, and whether before or after it has doubled a weight.
enum class FailsAt { never, before, after };

void expect_alike_after_update(const std::vector<FailsAt>& fails, int steps_before) {
  Training training(loss_in<TinyNet>(DType::f32), {.optimizer = Adam::Config{}});
  for (int step = 0; step < steps_before; ++step) {
    training.step(static_cast<std::uint64_t>(step));
  }
  std::vector<double> expected = training.weights();
  const auto rank_of = [&](const TinyNet& model) {
    return static_cast<std::size_t>(model.first.weight.device().name().back() - '0');
  };
  const auto update = [&](TinyNet& model, Optimizer&) {
    const FailsAt at = fails[rank_of(model)];
    if (at == FailsAt::before) {
      throw std::runtime_error("no");
    }
    model.first.weight = model.first.weight * 2.0;
    if (at == FailsAt::after) {
      throw std::runtime_error("no");
    }
  };
  EXPECT_THROW(training.trainer().update_replicas(update), Exception);
  const bool has_happened =
      std::ranges::count(fails, FailsAt::never) > 0 || fails.front() == FailsAt::after;
  EXPECT_TRUE(has_equal_replicas(training.trainer()));
  for (std::size_t i = 0; has_happened && i < TinyNet::kSide * TinyNet::kSide * 8; ++i) {
    expected[i] *= 2;
  }
  EXPECT_EQ(training.weights(), expected);
  training.step(7);
  EXPECT_TRUE(has_equal_replicas(training.trainer()));
}

TEST(DataParallelFailure, AnUpdateThatFailsOnSomeRanksLeavesAllAlike) {
  using enum FailsAt;
  for (const int steps_before : {0, 1}) {
    expect_alike_after_update({never, before, never}, steps_before);
    expect_alike_after_update({after, never, before}, steps_before);
    expect_alike_after_update({before, after, after}, steps_before);
    expect_alike_after_update({after, before, before}, steps_before);
  }
}

TEST(DataParallelFailure, ALearningRateThatIsRefusedChangesNothing) {
  Training training(loss_in<TinyNet>(DType::f32));
  Training undisturbed(loss_in<TinyNet>(DType::f32));
  EXPECT_THROW(training.trainer().set_learning_rate(-1), Exception);
  training.step(1);
  undisturbed.step(1);
  EXPECT_EQ(training.weights(), undisturbed.weights());
}

// An invalid class on one rank: no call throws there, but a weight has no values.
TEST(DataParallelFailure, AnUpdateThatADeviceCannotDoLeavesAllAlike) {
  Training training(loss_in<TinyNet>(DType::f32));
  training.step(1);
  const auto update = [](TinyNet& model, Optimizer&) {
    const Device device = model.first.weight.device();
    const std::int64_t label = device.name() == "cpu:1" ? 9 : 0;
    model.first.weight = model.first.weight +
                         cross_entropy(zeros(device, {1, 2}), Tensor::from(device, {label}, {1}));
  };
  EXPECT_THROW(training.trainer().update_replicas(update), Exception);
  EXPECT_TRUE(has_equal_replicas(training.trainer()));
  training.step(2);
  EXPECT_TRUE(has_equal_replicas(training.trainer()));
}

TEST(DataParallelFailure, AMissingRankEndsTheStepAtTheDeadline) {
  for (const std::uint64_t seed : {0U, 1U, 2U, 3U}) {
    ManualExecutor executor(seed);
    executor.run([&] {
      detail::Mailbox<int> release;
      Sabotage sabotage;
      sabotage.act = [&](const TinyNet& model, Samples& shard, WorkerContext& context) {
        EXPECT_TRUE(release.pop(Deadline::in(std::chrono::hours(1))).has_value());
        return mean_loss(model, shard, context.device, DType::f32);
      };
      Training training(sabotage.loss(), {.executor = &executor});
      training.step(1);
      const std::vector<double> before = training.weights();
      const detail::TimePoint start = detail::current_context().clock().now();
      sabotage.is_armed.store(true, std::memory_order_release);
      const ErrorRef error = training.failing_step(2);
      sabotage.is_armed.store(false, std::memory_order_release);
      ASSERT_NE(error, nullptr);
      EXPECT_EQ(error->code, ErrorCode::deadline_exceeded);
      EXPECT_THAT(error->text, HasSubstr("step 2, bucket 0"));
      EXPECT_THAT(error->text, HasSubstr("rank 1 on cpu:1 did not arrive within 5000ms"));
      EXPECT_GE(detail::current_context().clock().now() - start, std::chrono::seconds(5));
      EXPECT_LT(detail::current_context().clock().now() - start, std::chrono::seconds(6));
      release.push(1);
      EXPECT_TRUE(has_equal_replicas(training.trainer()));
      EXPECT_EQ(training.weights(), before);
      EXPECT_EQ(training.step(3).step, 3);
      EXPECT_TRUE(has_equal_replicas(training.trainer()));
    });
  }
}

// Any order of the threads' steps gives equal bits.
TEST(DataParallelFailure, TheOrderOfThreadsChangesNothing) {
  std::vector<double> expected;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    ManualExecutor executor(seed);
    executor.run([&] {
      Training training(loss_in<TinyNet>(DType::f32), {.executor = &executor});
      training.step(1);
      training.step(2);
      const std::vector<double> weights = training.weights();
      if (expected.empty()) {
        expected = weights;
      }
      EXPECT_EQ(weights, expected) << "seed " << seed;
    });
  }
}

TEST(DataParallelFailure, ATrainerCanBeDestroyedWithStepsInFlight) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Pending<DataParallelReport>> pending;
    {
      Training training(loss_in<TinyNet>(DType::f32));
      for (int step = 0; step < round % 7; ++step) {
        pending.push_back(training.trainer().step_later(training.batch(1)));
      }
      if (round % 3 == 1 && !pending.empty()) {
        static_cast<void>(pending.front().wait());
      }
    }
    for (const Pending<DataParallelReport>& each : pending) {
      const Status status = each.wait();
      EXPECT_TRUE(status.has_value() || status.error().code == ErrorCode::cancelled)
          << status.error().to_string();
    }
  }
}

TEST(DataParallelFailure, ATrainerCanBeDestroyedWhileARankIsStuck) {
  detail::Mailbox<int> stuck;
  detail::Mailbox<int> release;
  Sabotage sabotage;
  sabotage.act = [&](const TinyNet& model, Samples& shard, WorkerContext& context) {
    stuck.push(1);
    EXPECT_TRUE(release.pop(Deadline::in(kDefaultWait)).has_value());
    return mean_loss(model, shard, context.device, DType::f32);
  };
  sabotage.is_armed.store(true, std::memory_order_release);
  Pending<DataParallelReport> pending;
  {
    Training training(sabotage.loss());
    pending = training.trainer().step_later(training.batch(1));
    ASSERT_TRUE(stuck.pop(Deadline::in(kDefaultWait)).has_value());
    release.push(1);
  }
  const Status status = pending.wait();
  EXPECT_TRUE(status.has_value() || status.error().code == ErrorCode::cancelled);
}

TEST(DataParallelFailure, ATrainerCanBeDestroyedAfterAFailedStep) {
  Sabotage sabotage;
  sabotage.act = [](const TinyNet&, Samples&, WorkerContext&) -> Tensor {
    throw std::runtime_error("no");
  };
  sabotage.is_armed.store(true, std::memory_order_release);
  for (int round = 0; round < 5; ++round) {
    Training training(sabotage.loss());
    EXPECT_NE(training.failing_step(1), nullptr);
  }
}

}  // namespace
}  // namespace hearth
