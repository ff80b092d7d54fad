// Trials on a backend whose candidates are planned, in virtual time.
#include "runtime/device/tuning/trial.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/base/log.hpp>
#include <hearth/runtime/base/manual_executor.hpp>

#include "tests/base/temporary_folder.hpp"
#include "tuned_product.hpp"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using detail::Candidate;
using detail::CandidateId;
using detail::kRulePick;
using detail::TuneEntry;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::PlannedBackend;
using ::testing::UnorderedElementsAre;

constexpr CandidateId kFast = 1;
constexpr CandidateId kWrong = 2;
constexpr CandidateId kWild = 3;
constexpr CandidateId kRefused = 4;
constexpr CandidateId kFailing = 5;
constexpr CandidateId kSlow = 6;

std::vector<Candidate> list(std::initializer_list<CandidateId> ids) {
  std::vector<Candidate> candidates{{.id = kRulePick, .bits = 1, .text_hash = 9, .name = "rule"}};
  for (const CandidateId id : ids) {
    candidates.push_back({.id = id, .bits = 1, .text_hash = 9, .name = "planned"});
  }
  return candidates;
}

void take(std::chrono::nanoseconds time) {
  static_cast<void>(detail::current_context().parker().park(Deadline::in(time)));
}

Issue plan(const Launch& launch, Issue issue) {
  std::byte* const result = launch.call.outputs[0].data;
  const std::int64_t bytes = launch.call.outputs[0].element_count() * 4;
  switch (launch.pick) {
    case kFast:
      take(50us);
      break;
    case kWrong:
      result[bytes - 1] ^= std::byte{1};
      break;
    case kWild:
      result[-1] ^= std::byte{1};
      break;
    case kRefused:
      return {.status = Error{.code = ErrorCode::unsupported, .text = "not for this call"},
              .may_have_begun = false,
              .is_pick_refused = true};
    case kFailing:
      return {.status = Error{.code = ErrorCode::kernel_failed, .text = "it broke"}};
    case kSlow:
      take(150us);
      break;
    default:
      take(100us);
  }
  return issue;
}

TrialOptions options() {
  return {.tuner = {.level = AutotuneLevel::full}, .rotated_bytes = 1};
}

class TrialTest : public ::testing::Test {
 protected:
  // Runs the trials of `wanted` to their end. Nothing without a trial.
  Result<std::optional<TuneEntry>> tune(PlannedBackend& backend,
                                        const detail::TuneStore* store = nullptr,
                                        TrialOptions chosen = options()) {
    Result<std::optional<TuneEntry>> entry{std::optional<TuneEntry>()};
    executor.run([&] { entry = run(backend, store, chosen); });
    return entry;
  }
  Result<std::optional<TuneEntry>> run(PlannedBackend& backend,
                                       const detail::TuneStore* store,
                                       const TrialOptions& chosen) {
    HEARTH_TRY(const std::unique_ptr<Trial> trial,
               Trial::begin(backend, store, chosen, wanted, nullptr));
    if (!trial) {
      return std::optional<TuneEntry>();
    }
    while (trial->next().step != detail::TuneStep::done) {
      HEARTH_TRY(const Trial::Step taken, trial->step(is_interrupted));
      interruptions += taken == Trial::Step::interrupted ? 1 : 0;
    }
    return std::optional(trial->entry());
  }

  Trial::IsInterrupted is_interrupted = [] { return false; };
  int interruptions = 0;
  ManualExecutor executor;
  WantedCall wanted = testing::wanted_product(5, 7, 3);
};

TEST_F(TrialTest, FindsTheFastestCandidate) {
  PlannedBackend backend(list({kSlow, kFast}), plan);
  const TuneEntry entry = tune(backend).value().value();
  ASSERT_EQ(entry.ladder.size(), 2U);
  EXPECT_EQ(entry.ladder[0].id, kFast);
  EXPECT_EQ(entry.ladder[1].id, kRulePick);
  EXPECT_NEAR(entry.evidence.ratio, 0.5, 0.01);
  EXPECT_EQ(entry.key, wanted.key);
  EXPECT_THAT(entry.label, HasSubstr("matmul f32"));
  EXPECT_TRUE(entry.quarantined.empty());
}

TEST_F(TrialTest, KeepsTheRuleWhereNothingIsFaster) {
  PlannedBackend backend(list({kSlow}), plan);
  const TuneEntry entry = tune(backend).value().value();
  ASSERT_EQ(entry.ladder.size(), 1U);
  EXPECT_EQ(entry.ladder[0].id, kRulePick);
}

// Each of them would be the fastest.
TEST_F(TrialTest, QuarantinesCandidatesThatComputeWrongOrWriteOutside) {
  PlannedBackend backend(list({kWrong, kWild, kFailing, kRefused}), plan);
  const TuneEntry entry = tune(backend).value().value();
  ASSERT_EQ(entry.ladder.size(), 1U);
  std::vector<std::string> reasons;
  std::vector<CandidateId> ids;
  for (const detail::Quarantined& each : entry.quarantined) {
    ids.push_back(each.id);
    reasons.push_back(each.reason);
  }
  EXPECT_THAT(ids, UnorderedElementsAre(kWrong, kWild, kFailing));
  EXPECT_THAT(reasons,
              UnorderedElementsAre(HasSubstr("computes other bytes"),
                                   HasSubstr("out of the bounds"),
                                   HasSubstr("fails: it broke")));
  EXPECT_EQ(std::ranges::count(backend.ran, kWrong), 1) << "none is timed";
  EXPECT_EQ(std::ranges::count(backend.ran, kWild), 1);
}

TEST_F(TrialTest, CallsBeyondTheLimitsHaveNoTrial) {
  PlannedBackend backend(list({kFast}), plan);
  TrialOptions small = options();
  small.most_bytes = 100;
  EXPECT_EQ(tune(backend, nullptr, small).value(), std::nullopt);
  EXPECT_TRUE(backend.ran.empty());
  TrialOptions brief = options();
  brief.longest_run = 99us;  // the rule takes 100
  EXPECT_EQ(tune(backend, nullptr, brief).value(), std::nullopt);
  EXPECT_EQ(std::ranges::count(backend.ran, kFast), 0);
}

// Every 30th look interrupts. A sample that is broken off is taken anew.
TEST_F(TrialTest, InterruptionsChangeNoResult) {
  PlannedBackend backend(list({kSlow, kFast}), plan);
  is_interrupted = [looks = 0]() mutable { return ++looks % 30 == 0; };
  TrialOptions chosen = options();
  chosen.tuner.judge.limits.least_wall = 300us;
  const TuneEntry entry = tune(backend, nullptr, chosen).value().value();
  EXPECT_GT(interruptions, 3);
  EXPECT_EQ(entry.ladder[0].id, kFast);
  EXPECT_NEAR(entry.evidence.ratio, 0.5, 0.01);
}

// A step ends within one run of a kernel.
TEST_F(TrialTest, AnInterruptionEndsTheStepBeforeTheNextRun) {
  PlannedBackend backend(list({kFast}), plan);
  std::size_t runs_at_interruption = 0;
  is_interrupted = [&, looks = 0]() mutable {
    EXPECT_TRUE(runs_at_interruption == 0 || backend.ran.size() == runs_at_interruption);
    runs_at_interruption = ++looks % 25 == 0 ? backend.ran.size() : 0;
    return runs_at_interruption != 0;
  };
  TrialOptions chosen = options();
  chosen.tuner.judge.limits.least_wall = 100us;
  EXPECT_TRUE(tune(backend, nullptr, chosen).value().has_value());
  EXPECT_GT(interruptions, 3);
}

TEST_F(TrialTest, ACallWithoutCandidatesHasNoTrial) {
  PlannedBackend backend({}, plan);
  EXPECT_EQ(tune(backend).value(), std::nullopt);
  EXPECT_TRUE(backend.ran.empty());
}

TEST_F(TrialTest, ACandidateThatThrowsIsQuarantined) {
  PlannedBackend backend(list({kFast}), [](const Launch& launch, Issue issue) {
    if (launch.pick == kFast) {
      throw std::runtime_error("the cable was pulled");
    }
    return plan(launch, std::move(issue));
  });
  const TuneEntry entry = tune(backend).value().value();
  ASSERT_EQ(entry.quarantined.size(), 1U);
  EXPECT_THAT(entry.quarantined[0].reason, HasSubstr("the cable was pulled"));
}

TEST_F(TrialTest, AFailureOfTheRuleIsAnError) {
  PlannedBackend backend(list({kFast}), [](const Launch& launch, Issue issue) {
    return launch.pick == kRulePick
               ? Issue{.status = Error{.code = ErrorCode::kernel_failed, .text = "the rule broke"}}
               : issue;
  });
  EXPECT_THAT(tune(backend).error().text, HasSubstr("the rule broke"));
}

// The mark stands during the runs that verify, and not while the candidate is timed.
TEST_F(TrialTest, AMarkStandsDuringTheFirstRuns) {
  const TemporaryFolder folder;
  detail::Log log;
  const detail::TuneStore store =
      detail::TuneStore::open(
          {.folder = folder.path(), .fingerprint = detail::Fingerprint::of({{"isa", "test"}})}, log)
          .value();
  const auto mark = store.path().string() + ".trying-0";
  std::vector<bool> marked;
  PlannedBackend backend(list({kFast}), [&](const Launch& launch, Issue issue) {
    if (launch.pick == kFast) {
      marked.push_back(std::filesystem::exists(mark));
    }
    return plan(launch, std::move(issue));
  });
  EXPECT_TRUE(tune(backend, &store).value().has_value());
  ASSERT_GT(marked.size(), 3U);
  EXPECT_EQ(std::ranges::count(marked, true), 3) << "three sets of data";
  EXPECT_TRUE(std::all_of(marked.begin(), marked.begin() + 3, [](bool is) { return is; }));
}

// NaN results have no bits of their own: the order of factors decides their sign.
TEST_F(TrialTest, AnyNaNEqualsAnyNaN) {
  PlannedBackend backend(list({kFast}), [](const Launch& launch, Issue issue) {
    if (launch.pick == kFast) {
      auto* const values = launch.call.outputs[0].as<std::uint32_t>();
      for (std::int64_t i = 0; i < launch.call.outputs[0].element_count(); ++i) {
        const bool is_nan = (values[i] & 0x7FFFFFFFU) > 0x7F800000U;
        values[i] ^= is_nan ? 0x80000000U : 0U;
      }
    }
    return plan(launch, std::move(issue));
  });
  EXPECT_EQ(tune(backend).value().value().ladder[0].id, kFast);
}

}  // namespace
}  // namespace hearth
