// A rank that hangs while another failure is handled, or outside of steps, and a device whose
// kernel hangs: the trainer abandons it in time, reports the first failure and continues.
#include <hearth/parallel/data_parallel.hpp>

#include "training_support.hpp"

#include "parallel/steps/rank_group.hpp"

#include <hearth/runtime/base/manual_executor.hpp>

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

constexpr int kWorld = 3;
const std::string kFirst = "sim:0";
const std::string kHung = "sim:1";

void pass(std::chrono::nanoseconds time) {
  const Deadline end = Deadline::in(time);
  while (!end.has_passed()) {
    detail::current_context().parker().park(end);
  }
}

Samples batch_of(int step) {
  return random_samples(13, TinyNet::kSide, static_cast<std::uint64_t>(step));
}

using Prank = std::function<void(const std::string& device, int call)>;

// A trainer on sim:0 to sim:2, whose loss function first runs a fault of the test.
class Hall {
 public:
  explicit Hall(detail::Executor* executor,
                DeviceLossPolicy policy,
                Prank prank = {},
                FaultPlan of_first = {})
      : runtime(options(executor, std::move(of_first))), prank_(std::move(prank)) {
    Generator generator(3);
    const std::vector<Device> all = runtime.devices();
    trainer.emplace(runtime,
                    TinyNet(all.back(), generator, DType::f32),
                    loss(),
                    DataParallelOptions{.devices = {all.begin(), all.end() - 1},
                                        .optimizer = Sgd::Config{.learning_rate = 0.05},
                                        .on_loss = policy});
  }
  Hall(const Hall&) = delete;
  Hall& operator=(const Hall&) = delete;
  ~Hall() {  // so that a failed test does not hang
    unblock();
  }
  void hang() const { static_cast<void>(released_->wait({.deadline = Deadline::never()})); }
  DataParallelReport step(int number) {
    return trainer->step([number](const std::vector<Device>& ranks) {
      return divide(batch_of(number), static_cast<int>(ranks.size()));
    });
  }
  /// The error that the call throws.
  static std::string error_of(const std::function<void()>& act) {
    try {
      act();
      return "nothing";
    } catch (const Exception& exception) {
      return exception.what();
    }
  }
  static std::chrono::nanoseconds time_of(const std::function<void()>& act) {
    const detail::TimePoint start = detail::current_context().clock().now();
    act();
    return detail::current_context().clock().now() - start;
  }
  /// An update of the replicas, or an evaluation, that hangs on one of them.
  void hang_in_update() {
    trainer->update_replicas([this](TinyNet& model, Optimizer& optimizer) {
      if (device_of(model) == kHung) {
        hang();
      }
      optimizer.set_learning_rate(0.02);
    });
  }
  void hang_in_evaluation() {
    static_cast<void>(trainer->evaluate([this](const TinyNet& model, WorkerContext&) {
      if (device_of(model) == kHung) {
        hang();
      }
      return 1;
    }));
  }
  void unblock() {
    if (!released_->is_ready()) {
      release_.set_value();
    }
    pass(1s);
  }

  const Runtime runtime;

 private:
  static RuntimeOptions options(detail::Executor* executor, FaultPlan of_first) {
    RuntimeOptions made{.devices = {}, .fusion = Fusion::off, .executor = executor};
    for (int i = 0; i < kWorld + 1; ++i) {
      made.devices.push_back({.name = "sim:" + std::to_string(i)});
    }
    made.devices.front().faults = std::move(of_first);
    return made;
  }
  static std::string device_of(const TinyNet& model) {
    return named_tensors(model).front().tensor.device().name();
  }
  Trainer::LossFn loss() {
    return [this](const TinyNet& model, Samples& shard, WorkerContext& context) {
      const std::string device = context.device.name();
      if (prank_) {
        prank_(device, ++calls_[device]);
      }
      return mean_loss(model, shard, context.device, DType::f32);
    };
  }

  const Prank prank_;
  std::map<std::string, int> calls_;
  Promise<void> release_;
  const std::shared_ptr<const Pending<void>> released_ =
      std::make_shared<const Pending<void>>(release_.pending());

 public:
  std::optional<Trainer> trainer;
};

// The table of data_parallel_faults_test has the case with a previous step.
TEST(DataParallelLateRank, TheFirstErrorOfTheFirstStepIsNotSwallowedByAHang) {
  ManualExecutor executor;
  executor.run([&] {
    Hall* at = nullptr;
    Hall hall(&executor, DeviceLossPolicy::stop, [&](const std::string& device, int) {
      if (device == kFirst) {
        pass(1s);  // the others have begun by then
        throw std::runtime_error("a bad sample");
      }
      if (device == kHung) {
        at->hang();
      }
    });
    at = &hall;
    std::string error;
    const std::chrono::nanoseconds time = Hall::time_of([&] {
      error =
          Hall::error_of([&] { hall.trainer->step(divide(batch_of(1), hall.trainer->world())); });
    });
    EXPECT_THAT(error, HasSubstr("a bad sample"));
    EXPECT_LE(time, 1s + kDefaultWait) << "no step says how long";
  });
}

TEST(DataParallelLateRank, OneThatTakesAsLongAsInTheStepBeforeIsNotGivenUpWhenAnotherFails) {
  ManualExecutor executor;
  executor.run([&] {
    Hall hall(&executor, DeviceLossPolicy::shrink, [](const std::string& device, int call) {
      if (call == 2 && device == kFirst) {
        pass(1s);  // the others have begun by then
        throw std::runtime_error("a bad sample");
      }
      pass(20s);
    });
    hall.step(0);
    EXPECT_THAT(Hall::error_of([&] { hall.step(1); }), HasSubstr("a bad sample"));
    hall.step(2);
    EXPECT_EQ(hall.trainer->world(), kWorld);
    EXPECT_TRUE(has_equal_replicas(*hall.trainer));
  });
}

TEST(DataParallelLateRank, OneThatHangsWhileAnotherLosesItsDeviceIsMendedWithIt) {
  for (const DeviceLossPolicy policy : {DeviceLossPolicy::shrink, DeviceLossPolicy::replace}) {
    ManualExecutor executor;
    executor.run([&] {
      Hall* at = nullptr;
      Hall hall(&executor,
                policy,
                [&at](const std::string& device, int call) {
                  if (call == 2 && device == kHung) {
                    at->hang();
                  }
                  if (call == 2 && device == kFirst) {
                    Tensor some = zeros(at->runtime.device(kFirst), {1});
                    for (int i = 0; i < 500; ++i) {
                      some = some + 1;
                    }
                  }
                },
                {.lost_at_submit = 200});
      at = &hall;
      hall.step(0);
      EXPECT_LT(Hall::time_of([&] { hall.step(1); }), 10s);
      EXPECT_EQ(hall.trainer->world(), policy == DeviceLossPolicy::shrink ? 1 : kWorld);
      EXPECT_TRUE(has_equal_replicas(*hall.trainer));
    });
  }
}

TEST(DataParallelLateRank, OneThatHangsInAnUpdateOrAnEvaluationIsMendedBeforeTheNextStep) {
  for (const DeviceLossPolicy policy : {DeviceLossPolicy::shrink, DeviceLossPolicy::replace}) {
    for (void (Hall::*const act)() : {&Hall::hang_in_update, &Hall::hang_in_evaluation}) {
      ManualExecutor executor;
      executor.run([&] {
        Hall hall(&executor, policy);
        hall.step(0);
        EXPECT_THAT(Hall::error_of([&] { (hall.*act)(); }), HasSubstr("the deadline passed"));
        EXPECT_LT(Hall::time_of([&] { hall.step(1); }), 4s);
        EXPECT_EQ(hall.trainer->world(), policy == DeviceLossPolicy::shrink ? kWorld - 1 : kWorld);
        EXPECT_TRUE(has_equal_replicas(*hall.trainer));
        hall.unblock();
        hall.step(2);
        EXPECT_TRUE(has_equal_replicas(*hall.trainer)) << "whoever comes back changes nothing";
      });
    }
  }
}

TEST(DataParallelLateRank, UnderStopTheModelIsReachedPastOneThatHangs) {
  for (void (Hall::*const act)() : {&Hall::hang_in_update, &Hall::hang_in_evaluation}) {
    ManualExecutor executor;
    executor.run([&] {
      Hall hall(&executor, DeviceLossPolicy::stop);
      hall.step(0);
      EXPECT_THAT(Hall::error_of([&] { (hall.*act)(); }), HasSubstr("the deadline passed"));
      EXPECT_LT(Hall::time_of([&] { static_cast<void>(hall.trainer->snapshot()); }), 4s);
      EXPECT_THAT(Hall::error_of([&] { hall.step(1); }),
                  HasSubstr("DataParallel: rank 1 on sim:1 hangs"));
      EXPECT_LT(Hall::time_of([&] { static_cast<void>(hall.trainer->take_model()); }), 4s);
    });
  }
}

TEST(DataParallelLateRank, UnderStopTheSecondSnapshotGoesPastARankThatHangsInItsLoss) {
  ManualExecutor executor;
  executor.run([&] {
    Hall* at = nullptr;
    Hall hall(&executor, DeviceLossPolicy::stop, [&at](const std::string& device, int call) {
      if (call == 2 && device == kFirst) {
        at->hang();
      }
    });
    at = &hall;
    hall.step(0);
    EXPECT_THAT(Hall::error_of([&] { hall.step(1); }), HasSubstr("rank 0 on sim:0 did not arrive"));
    EXPECT_THROW(static_cast<void>(hall.trainer->snapshot()), DeadlineExceeded);
    EXPECT_LT(Hall::time_of([&] { static_cast<void>(hall.trainer->snapshot()); }), 4s);
  });
}

TEST(DataParallelLateRank, UnderStopOneThatComesBackGetsTheStateOfTheOthers) {
  ManualExecutor executor;
  executor.run([&] {
    Hall hall(&executor, DeviceLossPolicy::stop);
    hall.step(0);
    EXPECT_THAT(Hall::error_of([&] { hall.hang_in_update(); }), HasSubstr("the deadline passed"));
    EXPECT_THAT(Hall::error_of([&] { hall.step(1); }), HasSubstr("hangs"));
    hall.unblock();
    hall.step(1);
    EXPECT_EQ(hall.trainer->world(), kWorld);
    EXPECT_TRUE(has_equal_replicas(*hall.trainer));
  });
}

TEST(RankGroup, NumbersItsRanksInTheNextMendWhenOneDidNotAnswerInThis) {
  ManualExecutor executor;
  executor.run([&] {
    const Runtime runtime({.devices = {{.name = "sim:0"}, {.name = "sim:1"}, {.name = "sim:2"}},
                           .executor = &executor});
    Generator generator(3);
    RankGroup ranks(
        runtime,
        detail::ModelOf<TinyNet>(TinyNet(runtime.device("sim:0"), generator, DType::f32)),
        detail::LossOf<TinyNet, Samples>::of(loss_in<TinyNet>(DType::f32)),
        {.devices = runtime.devices(), .on_loss = DeviceLossPolicy::shrink},
        ProcessRanks{.counts = {3}},
        SourceLoc::current());
    Promise<void> release;
    const auto released = std::make_shared<const Pending<void>>(release.pending());
    const Pending<void> hung = ranks[0].worker.run([released](WorkerContext&) {
      static_cast<void>(released->wait({.deadline = Deadline::never()}));
    });
    int questions = 0;
    Promise<void> answer;
    const auto answered = std::make_shared<const Pending<void>>(answer.pending());
    const auto trouble = [&] {
      if (++questions == 2) {  // no more answers will arrive
        ranks[2].worker.post([answered](WorkerContext&) {
          static_cast<void>(answered->wait({.deadline = Deadline::never()}));
        });
      }
      return CoordinatorTrouble{.missing = questions > 2 ? std::vector<int>{} : std::vector{0},
                                .has_hang = true};
    };
    EXPECT_THROW(static_cast<void>(ranks.mend(trouble, 1s)), DeadlineExceeded);
    answer.set_value();
    EXPECT_FALSE(ranks.is_whole());
    EXPECT_EQ(ranks.mend(trouble, 1s), nullptr);
    EXPECT_TRUE(ranks.is_whole());
    std::vector<std::pair<int, int>> numbers;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      numbers.push_back(
          ranks[i]
              .worker
              .run([](WorkerContext& context) { return std::pair(context.rank, context.world); })
              .get());
    }
    EXPECT_THAT(numbers, ElementsAre(std::pair(0, 2), std::pair(1, 2)));
    release.set_value();
  });
}

}  // namespace
}  // namespace hearth
