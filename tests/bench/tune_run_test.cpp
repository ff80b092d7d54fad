// `tune run`: the names that it takes, the keys of its calls, and what it shows of planned trials.
#include "bench/kernels/tune_run.hpp"

#include "bench/kernels/suites.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hearth/runtime/all.hpp>
#include <hearth/runtime/base/manual_executor.hpp>
#include <hearth/runtime/base/thread_context.hpp>

#include "runtime/client/ask.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/runtime/device/tuned_product.hpp"
#include "tests/support/environment_variable.hpp"

namespace hearth::bench {
namespace {

using namespace std::chrono_literals;
using detail::Candidate;
using detail::CandidateId;
using detail::kRulePick;
using detail::Verdict;
using ::testing::Contains;
using testing::EnvironmentVariable;
using ::testing::HasSubstr;
using testing::PlannedBackend;
using ::testing::SizeIs;

std::vector<TuneTarget> targets_of(std::vector<std::string> names) {
  return tune_targets(names).value();
}

std::string mistake_of(std::vector<std::string> names) {
  return tune_targets(names).error().text;
}

TEST(TuneTargets, AreRowsAndProblems) {
  const std::vector<TuneTarget> targets = targets_of({"suite:matmul", "matmul m=3,5 n=7 k=11"});
  ASSERT_THAT(targets, SizeIs(product_rows().size() + 2));
  EXPECT_EQ(targets[0].suite, "matmul");
  EXPECT_EQ(targets[0].name, product_rows()[0].name);
  EXPECT_EQ(targets.back().suite, "");
  EXPECT_EQ(targets.back().name, "matmul m=5 n=7 k=11");
  EXPECT_THAT(targets_of({}), SizeIs(product_rows().size() + convolution_rows().size()));
}

TEST(TuneTargets, ComeOnce) {
  EXPECT_THAT(targets_of({"matmul/square-768", "square-768", "matmul"}),
              SizeIs(product_rows().size()));
}

TEST(TuneTargets, APartOfAProblemIsAFilter) {
  const std::vector<TuneTarget> targets = targets_of({"matmul m=768 n=768"});
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets[0].name, "square-768");
}

TEST(TuneTargets, UnknownNamesGetTheNearestOne) {
  EXPECT_THAT(mistake_of({"matmol"}), HasSubstr("did you mean 'matmul'?"));
  EXPECT_THAT(mistake_of({"matmull m=1 n=1 k=1"}), HasSubstr("did you mean 'matmul'?"));
  EXPECT_THAT(mistake_of({"matmul", "matmul m=1 n=1 k=1 bach=2"}),
              HasSubstr("did you mean 'batch'?"));
}

TEST(LevelOfTrials, IsThatOfTheOptionThenOfTheEnvironment) {
  const EnvironmentVariable off("HEARTH_AUTOTUNE", "off");
  EXPECT_EQ(level_of_trials("minimal").value(), AutotuneLevel::minimal);
  EXPECT_THAT(level_of_trials("").error().text, HasSubstr("HEARTH_AUTOTUNE=off allows no trials"));
  const EnvironmentVariable full("HEARTH_AUTOTUNE", "full");
  EXPECT_EQ(level_of_trials("").value(), AutotuneLevel::full);
}

TEST(LevelOfTrials, OthersAreRefused) {
  EXPECT_THAT(level_of_trials("ful").error().text, HasSubstr("did you mean 'full'?"));
  EXPECT_THAT(level_of_trials("cached_only").error().text,
              HasSubstr("the levels with trials are minimal, balanced, full"));
}

constexpr CandidateId kFast = 1;
constexpr CandidateId kSlow = 2;

void take(std::chrono::nanoseconds time) {
  static_cast<void>(detail::current_context().parker().park(Deadline::in(time)));
}

// Trials in virtual time: the rule takes 100 us.
class TuneRunTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<TuneRun>> open() {
    return TuneRun::open({.open = [this]() -> Result<std::unique_ptr<Backend>> {
                            return std::unique_ptr<Backend>(std::make_unique<PlannedBackend>(
                                candidates_, [this](const Launch& launch, Issue issue) {
                                  return plan(launch, std::move(issue));
                                }));
                          },
                          .level = AutotuneLevel::full});
  }
  Issue plan(const Launch& launch, Issue issue) {
    ++run_count_;
    if (is_rule_broken_) {
      return {.status = Error{.code = ErrorCode::kernel_failed, .text = "it broke"}};
    }
    take(launch.pick == kFast ? 50us : launch.pick == kSlow ? 150us : 100us);
    return issue;
  }
  Row tune(const std::string& problem, std::chrono::nanoseconds limit = 1h) {
    Row row;
    executor_.run(
        [&] { row = open().value()->tune(targets_of({problem}).front(), Deadline::in(limit)); });
    return row;
  }

  const TemporaryFolder folder_;
  const EnvironmentVariable cache_{"HEARTH_CACHE_DIR", folder_.path().string()};
  ManualExecutor executor_;
  std::vector<Candidate> candidates_{{.id = kRulePick, .bits = 1, .text_hash = 9, .name = "packed"},
                                     {.id = kSlow, .bits = 1, .text_hash = 9, .name = "slow"},
                                     {.id = kFast, .bits = 1, .text_hash = 9, .name = "swapped"}};
  int run_count_ = 0;
  bool is_rule_broken_ = false;
};

TEST_F(TuneRunTest, ShowsTheRuleThePickAndTheGain) {
  const Row row = tune("matmul m=5 n=7 k=3");
  EXPECT_EQ(row.rule, "packed");
  EXPECT_EQ(row.pick, "swapped");
  EXPECT_NEAR(row.gain, 2, 0.05);
  EXPECT_EQ(row.verdict, Verdict::faster);
  EXPECT_THAT(row.verdict_text, HasSubstr("FASTER"));
  EXPECT_NEAR(row.time.lowest.count(), 50e3, 1e3);
  EXPECT_EQ(exit_of({.rows = {row}}, false), Exit::fine);
}

TEST_F(TuneRunTest, AStoredResultIsNotTriedAgain) {
  const Row first = tune("matmul m=5 n=7 k=3");
  const int before = run_count_;
  const Row second = tune("matmul m=5 n=7 k=3", 0ns);
  EXPECT_EQ(run_count_, before);
  EXPECT_EQ(second.pick, first.pick);
  EXPECT_EQ(second.gain, first.gain);
  tune("matmul m=5 n=7 k=4");
  EXPECT_GT(run_count_, before) << "another call is another key";
}

TEST_F(TuneRunTest, TheRuleStaysWhereNothingIsFaster) {
  candidates_.pop_back();
  const Row row = tune("matmul m=5 n=7 k=3");
  EXPECT_EQ(row.pick, "rule");
  EXPECT_EQ(row.gain, 1);
  EXPECT_EQ(row.verdict_text, "SAME");
}

// The kernels of a later version may be others.
TEST_F(TuneRunTest, AResultOfAnotherKernelIsTriedAgain) {
  tune("matmul m=5 n=7 k=3");
  const int before = run_count_;
  candidates_.back().text_hash = 10;
  EXPECT_EQ(tune("matmul m=5 n=7 k=3").pick, "swapped");
  EXPECT_GT(run_count_, before);
  candidates_.front().text_hash = 10;
  EXPECT_EQ(tune("matmul m=5 n=7 k=3", 0ns).verdict_text, "UNCLEAR: no time left");
}

TEST_F(TuneRunTest, WithoutTimeTheVerdictIsUnclear) {
  const Row row = tune("matmul m=5 n=7 k=3", 0ns);
  EXPECT_EQ(run_count_, 0);
  EXPECT_EQ(row.verdict_text, "UNCLEAR: no time left");
  EXPECT_EQ(row.rule, "packed");
  EXPECT_EQ(exit_of({.rows = {row}}, false), Exit::unclear);
}

TEST_F(TuneRunTest, ACallWithoutChoiceIsNotTried) {
  EXPECT_EQ(tune("relu shape=8").verdict_text, "SAME: one kernel");
  EXPECT_EQ(tune("matmul m=5 n=7 k=3 epilogue=x*2").verdict_text, "SAME: one kernel");
  EXPECT_EQ(run_count_, 0);
}

TEST_F(TuneRunTest, AFailureOfTheRuleIsAFailure) {
  is_rule_broken_ = true;
  const Row row = tune("matmul m=5 n=7 k=3");
  EXPECT_TRUE(row.is_wrong);
  EXPECT_THAT(row.check, HasSubstr("it broke"));
  EXPECT_EQ(exit_of({.rows = {row}}, false), Exit::wrong);
}

TEST_F(TuneRunTest, AFileKeepsRuleAndPick) {
  const Report report{.rows = {tune("matmul m=5 n=7 k=3")}};
  const Report read = parse_report(to_json(report)).value();
  EXPECT_EQ(to_text(read, TableForm::csv), to_text(report, TableForm::csv));
  EXPECT_THAT(to_text(read, TableForm::csv), HasSubstr(",packed,swapped,"));
}

TEST_F(TuneRunTest, AStoreThatCannotBeWrittenIsAnError) {
  std::ofstream(folder_.path() / "file") << "no folder";
  const EnvironmentVariable blocked("HEARTH_CACHE_DIR", (folder_.path() / "file").string());
  const Result<std::unique_ptr<TuneRun>> run = open();
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().code, ErrorCode::io_error);
  EXPECT_THAT(run.error().text, HasSubstr((folder_.path() / "file").string()));
}

TEST_F(TuneRunTest, ADeviceWithoutChoicesIsRefused) {
  const Result<std::unique_ptr<TuneRun>> run = TuneRun::open("reference:0", AutotuneLevel::full);
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(exit_of(run.error()), Exit::usage);
}

// Else the results would be stored where no program looks for them.
TEST_F(TuneRunTest, HasTheKeysOfAProgramsCalls) {
  std::vector<detail::TuneKey> keys;
  {
    const Runtime runtime({.devices = {{.name = "cpu:0"}},
                           .deterministic = true,
                           .autotune = AutotuneLevel::minimal});
    const auto tensor = [&](Shape shape) { return hearth::zeros(runtime.device(), shape); };
    static_cast<void>(matmul(tensor({32, 48}), tensor({48, 64})).to_vector<float>());
    static_cast<void>(matmul(tensor({32, 48}), transpose(tensor({64, 48}))).to_vector<float>());
    static_cast<void>(
        conv2d(tensor({2, 16, 28, 28}), tensor({32, 16, 3, 3}), {.stride = 2, .padding = 1})
            .to_vector<float>());
    const auto wanted =
        ask<AskWantedCalls>(runtime.device().endpoint(), std::nullopt, SourceLoc::current());
    for (const WantedCall& call : wanted->calls) {
      keys.push_back(call.key);
    }
  }
  const auto run = TuneRun::open("cpu:0", AutotuneLevel::minimal).value();
  for (const char* const problem :
       {"matmul m=32 n=64 k=48",
        "matmul m=32 n=64 k=48 b=transposed",
        "conv2d batch=2 c=16 size=28 o=32 kernel=3 stride=2 padding=1"}) {
    EXPECT_THAT(keys, Contains(run->wanted(targets_of({problem})[0].problem).key)) << problem;
  }
}

}  // namespace
}  // namespace hearth::bench
