// Two asynchronous sims and a cpu train one model. One sim fails in the forward pass, the backward
// pass, the reduction or the step: by a loss, a hang, or a failing kernel, late if that kernel may
// fail while it runs. A step happens on all three devices or on none, and the weights are those of
// a fault-free run of the steps that happened.
#include "faulty_training.hpp"

#include <map>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/streams/op_table.hpp>

namespace hearth {
namespace {

using namespace hearth::testing;  // NOLINT: a test's own words
using ::testing::HasSubstr;

struct FaultKind {
  const char* name;
  Cost cost;
  const char* text;  ///< Part of the failed step's error, if a step fails.
  FaultPlan (*at)(std::uint64_t submit);
};
const std::vector<FaultKind> kFaults{
    {"Loss", Cost::device, "lost", [](auto at) { return FaultPlan{.lost_at_submit = at}; }},
    {"Hang", Cost::hung_device, "sim:1", [](auto at) { return FaultPlan{.hanging_submit = at}; }},
    {"Failure", Cost::step, "by the fault plan", [](auto at) {
       return FaultPlan{.late_failures = {at}};
     }}};

enum class Phase : std::uint8_t { forward, backward, reduction, step };
struct PhaseRow {
  const char* name;
  Phase phase;
};
const std::vector<PhaseRow> kPhases{{"Forward", Phase::forward},
                                    {"Backward", Phase::backward},
                                    {"Reduction", Phase::reduction},
                                    {"Step", Phase::step}};

/// The submits of the victim in a fault-free run.
struct Submits {
  std::map<Phase, std::vector<std::uint64_t>> of;  ///< Numbers, from 1.
  std::vector<std::uint64_t> with_cell;

  void note(const Launch& launch) {
    ++count_;
    const Phase before = phase_;
    phase_ = phase_of(launch.call.op);
    steps_ += before == Phase::step && phase_ != Phase::step ? 1 : 0;
    if (steps_ < kSteps - 1) {  // no step would report the outcome of the last one
      of[phase_].push_back(count_);
    }
    if (launch.cell != 0) {
      with_cell.push_back(count_);
    }
  }

 private:
  [[nodiscard]] Phase phase_of(const OpView& op) const {
    if (is_update(op.record())) {
      return Phase::step;
    }
    if (op.kind() == OpKind::concat) {
      return Phase::reduction;
    }
    if (op.kind() == OpKind::cross_entropy_backward || phase_ == Phase::reduction) {
      return Phase::backward;
    }
    return phase_ == Phase::step ? Phase::forward : phase_;
  }

  Phase phase_ = Phase::forward;
  int steps_ = 0;
  std::uint64_t count_ = 0;
};

class MixedFaults : public ::testing::TestWithParam<std::tuple<Policy, FaultKind, PhaseRow>> {
 protected:
  const Policy policy_ = std::get<0>(GetParam());
  const FaultKind fault_ = std::get<1>(GetParam());
  const Outcome outcome_ =
      outcome_of(policy_, fault_.cost, {.policy = policy_.on_loss, .is_mixed = true});
  const TrainingOptions options_ = options();

  /// If ranks leave, the fault-free run begins with new optimizers, so the options have no state.
  [[nodiscard]] TrainingOptions options() const {
    TrainingOptions options{
        .policy = policy_.on_loss, .has_spare = policy_.has_spare, .is_mixed = true};
    if (outcome_.is_as_if_nothing_had_been() || fault_.cost == Cost::step) {
      options.optimizer = Adam::Config{.learning_rate = 0.01};
    }
    return options;
  }

  [[nodiscard]] Submits honest_submits() const {
    Submits submits;
    const Trained trained =
        train({.watch = [&](const Launch& launch) { submits.note(launch); }}, options_);
    EXPECT_EQ(trained.happened.size(), static_cast<std::size_t>(kSteps));
    return submits;
  }
  void expect_outcome(const Trained& trained) {
    std::vector<double>& honest = honest_[trained.happened];
    if (honest.empty()) {
      honest = train_honestly(trained.happened, options_);
    }
    // Adam divides by values that may be as small as a sum's rounding error.
    EXPECT_LT(largest_difference(trained.weights, honest), 1e-4);
    expect_as_planned(trained, outcome_, fault_.text);
  }

 private:
  std::map<std::vector<std::pair<int, int>>, std::vector<double>> honest_;
};

TEST_P(MixedFaults, LeaveAStepWholeOrUndone) {
  Submits submits = honest_submits();
  const std::vector<std::uint64_t>& moments = submits.of[std::get<2>(GetParam()).phase];
  ASSERT_GE(moments.size(), static_cast<std::size_t>(kSteps - 1));
  constexpr std::size_t kMost = 6;
  const std::size_t stride = 1 + moments.size() / kMost;
  std::size_t met = 0;
  for (std::size_t i = 0; i < moments.size() && !HasFailure(); i += stride) {
    SCOPED_TRACE("submit " + std::to_string(moments[i]));
    const Trained trained = train({.plan = fault_.at(moments[i])}, options_, i % 3);
    if (trained.met_fault) {  // otherwise nothing depends on the failed op
      ++met;
      expect_outcome(trained);
    }
  }
  EXPECT_GE(met, 2U);
}

INSTANTIATE_TEST_SUITE_P(Table,
                         MixedFaults,
                         ::testing::Combine(::testing::ValuesIn(kPolicies),
                                            ::testing::ValuesIn(kFaults),
                                            ::testing::ValuesIn(kPhases)),
                         [](const auto& each) {
                           return std::string(std::get<0>(each.param).name) +
                                  std::get<1>(each.param).name + std::get<2>(each.param).name;
                         });

// Fails each kernel that may fail while it runs: those of losses and of their gradients.
TEST(MixedLateFailures, EachKernelThatMayFailLateCostsItsStepAlone) {
  const TrainingOptions options{.policy = DeviceLossPolicy::shrink,
                                .optimizer = Adam::Config{.learning_rate = 0.01},
                                .is_mixed = true};
  Submits submits;
  static_cast<void>(train({.watch = [&](const Launch& launch) { submits.note(launch); }}, options));
  ASSERT_EQ(submits.with_cell.size(), 2U * kSteps);
  std::size_t at = 0;
  for (const std::uint64_t submit : submits.with_cell) {
    SCOPED_TRACE("submit " + std::to_string(submit));
    const int step = static_cast<int>(at++ / 2);
    const Trained trained = train({.plan = {.late_failures = {submit}}}, options, at);
    ASSERT_EQ(trained.errors.size(), 1U);
    EXPECT_THAT(trained.errors[0]->to_string(), HasSubstr("by the fault plan"));
    EXPECT_THAT(trained.errors[0]->to_string(), HasSubstr("cross_entropy"));
    std::vector<std::pair<int, int>> others;
    for (int i = 0; i < kSteps; ++i) {
      if (i != step) {
        others.emplace_back(i, options.world());
      }
    }
    EXPECT_EQ(trained.happened, others);
    EXPECT_LT(largest_difference(trained.weights, train_honestly(others, options)), 1e-4);
  }
}

}  // namespace
}  // namespace hearth
