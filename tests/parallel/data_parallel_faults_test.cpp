// Every fault under every policy, at every moment of a short training. A step happens on all ranks
// or on none, within 10 s. The training continues by the policy, to the weights of a fault-free run
// of the steps that happened. No tensor is left in memory.
#include "faulty_training.hpp"

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using namespace std::chrono_literals;

struct FaultRow {
  const char* name;
  Cost cost;
  const char* text;  ///< Part of the failed step's error, if a step fails.
  Fault (*at)(int moment);
  int first = 1;
  int stride = 1;
  int last = kSteps;
  int least = 1;  ///< Minimum number of moments that meet the fault.
};

/// The rank of kVictim calls this in its call number `moment`.
template <class Act>
Fault in_loss(int moment, Act act) {
  return {
      .call = moment,
      .prank = [act](
                   const TinyNet& model, Samples& shard, WorkerContext& context, const Hall& hall) {
        return context.device.name() == kVictim ? act(model, shard, context, hall) : Tensor();
      }};
}

constexpr int kLastSubmit = 400;

const std::array kFaults{
    FaultRow{"TheDeviceIsLost",
             Cost::device,
             "lost",
             [](int moment) {
               return Fault{.plan = {.lost_at_submit = static_cast<std::uint64_t>(moment)}};
             },
             20,
             5,
             kLastSubmit,
             15},
    FaultRow{"TheDeviceHangs",
             Cost::hung_device,
             "sim:1",  // it first timed out, then its restart lost the replica
             [](int moment) {
               return Fault{.plan = {.hanging_submit = static_cast<std::uint64_t>(moment)}};
             },
             21,
             9,
             kLastSubmit,
             8},
    FaultRow{"AKernelFails",
             Cost::step,
             "by the fault plan",
             [](int moment) {
               return Fault{.plan = {.failing_submits = {static_cast<std::uint64_t>(moment)}}};
             },
             20,
             7,
             kLastSubmit,
             8},
    FaultRow{"AKernelDoesNotComeBack",
             Cost::both,
             "rank 1 on sim:1",
             [](int moment) { return Fault{.stuck_at = static_cast<std::uint64_t>(moment)}; },
             20,
             7,
             kLastSubmit,
             10},
    FaultRow{"TheLossHangs",
             Cost::thread,
             "rank 1 on sim:1 did not arrive within 5000ms",
             [](int moment) {
               return in_loss(moment, [](const auto&, auto&, auto&, const Hall& hall) {
                 hall.hang();
                 return Tensor();
               });
             }},
    FaultRow{"TheLossHangsAndAnotherThrows",
             Cost::thread,
             "a bad sample",
             [](int moment) {
               return Fault{
                   .call = moment,
                   .prank = [](const TinyNet&, Samples&, WorkerContext& context, const Hall& hall) {
                     if (context.device.name() == kVictim) {
                       hall.hang();
                     } else if (context.rank == 0) {
                       pass(1s);  // the others have begun by then
                       throw std::runtime_error("a bad sample");
                     }
                     return Tensor();
                   }};
             },
             2},
    FaultRow{"TheLossIsLate",  // more than the deadline, and less than both limits together
             Cost::time,
             "rank 1 on sim:1 did not arrive within 5000ms",
             [](int moment) {
               return in_loss(moment, [](const auto&, auto&, auto&, const Hall&) {
                 pass(6s);
                 return Tensor();
               });
             }},
    FaultRow{"TheLossThrows",
             Cost::step,
             "the camera is off",
             [](int moment) {
               return in_loss(moment, [](const auto&, auto&, auto&, const Hall&) -> Tensor {
                 throw std::runtime_error("the camera is off");
               });
             }},
    FaultRow{"TheLossThrowsAfterItsForwardPass",
             Cost::step,
             "shapes do not broadcast",
             [](int moment) {
               return in_loss(
                   moment,
                   [](const TinyNet& model, Samples& shard, WorkerContext& context, const Hall&) {
                     const Tensor loss = mean_loss(model, shard, context.device, DType::f32);
                     return add(loss, ones(context.device, {2, 3}) + ones(context.device, {3, 2}));
                   });
             }},
    FaultRow{"TheLossIsNoScalar",
             Cost::step,
             "worker 1 on sim:1",
             [](int moment) {
               return in_loss(moment, [](const TinyNet& model, auto&, auto&, const Hall&) {
                 return model.first.weight;
               });
             }},
    FaultRow{"AGradientIsPoisoned",
             Cost::step,
             "training_support.hpp",
             [](int moment) {
               return in_loss(moment, [](const TinyNet&, Samples& shard, auto&, const Hall&) {
                 shard.classes[0] = 10;  // there are ten, from 0
                 return Tensor();
               });
             }},
    FaultRow{"TheLossIsNotANumber",
             Cost::step,
             "rank 1 on sim:1",
             [](int moment) {
               return in_loss(
                   moment,
                   [](const TinyNet& model, Samples& shard, WorkerContext& context, const Hall&) {
                     return mul(mean_loss(model, shard, context.device, DType::f32),
                                std::numeric_limits<double>::quiet_NaN());
                   });
             }},
    FaultRow{"TheLossIsInfinite",
             Cost::step,
             "rank 1 on sim:1",
             [](int moment) {
               return in_loss(
                   moment,
                   [](const TinyNet& model, Samples& shard, WorkerContext& context, const Hall&) {
                     return mul(mean_loss(model, shard, context.device, DType::f32),
                                std::numeric_limits<double>::infinity());
                   });
             }},
};

class DataParallelFaults : public ::testing::TestWithParam<std::tuple<Policy, FaultRow>> {
 protected:
  const Policy policy_ = std::get<0>(GetParam());
  const FaultRow row_ = std::get<1>(GetParam());
  const Outcome outcome_ = outcome_of(policy_, row_.cost, {});

  /// If the fault leaves no visible trace, state that could show it is enabled.
  [[nodiscard]] TrainingOptions options() const {
    TrainingOptions options{.policy = policy_.on_loss, .has_spare = policy_.has_spare};
    if (outcome_.is_as_if_nothing_had_been()) {
      options.drop = 0.5;
      options.optimizer = Adam::Config{.learning_rate = 0.01};
    } else if (row_.cost == Cost::step) {
      options.optimizer = Sgd::Config{.learning_rate = 0.05, .momentum = 0.9};
    }
    return options;
  }
  [[nodiscard]] const std::vector<double>& honest(const std::vector<std::pair<int, int>>& steps) {
    std::vector<double>& weights = honest_[steps];
    if (weights.empty()) {
      weights = train_honestly(steps, options());
    }
    return weights;
  }
  void expect_outcome(const Trained& trained) {
    EXPECT_EQ(trained.weights, honest(trained.happened));
    expect_as_planned(trained, outcome_, row_.text);
  }

 private:
  std::map<std::vector<std::pair<int, int>>, std::vector<double>> honest_;
};

// Each moment also has another order of threads.
TEST_P(DataParallelFaults, LeaveAStepWholeOrUndone) {
  int met = 0;
  int missed_in_a_row = 0;  // number of moments after the training's end
  for (int moment = row_.first; moment <= row_.last && missed_in_a_row < 4 && !HasFailure();
       moment += row_.stride) {
    SCOPED_TRACE("moment " + std::to_string(moment));
    const Trained trained =
        train(row_.at(moment), options(), static_cast<std::uint64_t>(moment % 3));
    missed_in_a_row = trained.met_fault ? 0 : missed_in_a_row + 1;
    if (trained.met_fault) {
      ++met;
      expect_outcome(trained);
    }
  }
  EXPECT_GE(met, row_.last == kSteps ? row_.last - row_.first + 1 : row_.least);
}

INSTANTIATE_TEST_SUITE_P(Table,
                         DataParallelFaults,
                         ::testing::Combine(::testing::ValuesIn(kPolicies),
                                            ::testing::ValuesIn(kFaults)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) +
                                  std::get<1>(each.param).name;
                         });

// Other orders of the threads' steps and other places of the fault: no hang, and equal weights.
TEST(DataParallelFaultOrders, TheOrderOfThreadsChangesNothing) {
  const TrainingOptions options{.policy = DeviceLossPolicy::shrink};
  std::map<std::vector<std::pair<int, int>>, std::vector<double>> honest;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const std::uint64_t submit = 20 + seed * 37 % 100;
    const Trained trained =
        train(seed % 2 == 0 ? Fault{.plan = {.lost_at_submit = submit}} : Fault{.stuck_at = submit},
              options,
              seed);
    std::vector<double>& expected = honest[trained.happened];
    if (expected.empty()) {
      expected = train_honestly(trained.happened, options);
    }
    if (trained.met_fault) {
      EXPECT_EQ(trained.weights, expected);
    }
  }
}

// With real threads, in an order that the test does not control.
TEST(DataParallelFaultOrders, ThreadsSurviveALossToo) {
  for (const std::uint64_t submit : {70U, 101U, 133U}) {
    Hall hall(nullptr, {.plan = {.lost_at_submit = submit}});
    const TrainingOptions options{.policy = DeviceLossPolicy::shrink};
    const Trained trained = train_in(hall, options);
    if (trained.met_fault) {
      EXPECT_EQ(trained.weights, train_honestly(trained.happened, options));
    }
  }
}

}  // namespace
}  // namespace hearth
