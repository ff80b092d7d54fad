// Random programs of up to three threads on two sims, with shadow memory, random schedules and
// random faults on the first sim, against the reference. support/faulty_run.hpp lists the checks.
// RANDOM_FAULT_PROGRAMS sets the number, RANDOM_FIRST the first seed, RANDOM_BYTES the bytes of a
// single program.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/faulty_run.hpp"

namespace hearth::testing {
namespace {

constexpr SeededPrograms kPrograms{
    .count_variable = "RANDOM_FAULT_PROGRAMS",
    .count = 1000,
    .least_bytes = 60,
    .most_bytes = 500,
    .first = 1001};  // steps are torn in one program of a thousand, here too

TEST(RandomFaults, EveryTensorIsRightOrPoisonedWithCause) {
  FaultFigures figures;
  static_cast<void>(run_seeded(
      kPrograms, [&](auto bytes) { return judge_faulty_run(faulty_run_of(bytes), figures); }));
  std::printf(
      "%lu tensors made, at the end %lu right and %lu poisoned, %lu reads given up; "
      "%lu devices lost, %lu hung, %lu restarted; %lu steps, %lu of them given up, %lu of those "
      "behind "
      "kernels that fail late, %lu torn\n",
      figures.ops,
      figures.right,
      figures.poisoned,
      figures.cancelled,
      figures.lost,
      figures.hung,
      figures.restarted,
      figures.steps,
      figures.steps_cancelled,
      figures.steps_kept_late,
      figures.steps_torn);
  if (number_from("RANDOM_COVERAGE", 0) != 0) {
    for (const auto& [what, times] : figures.coverage) {
      std::printf("%8lu %s\n", times, what.c_str());
    }
  }
  EXPECT_GT(figures.right, figures.poisoned);
  for (const std::uint64_t reached : {figures.poisoned,
                                      figures.cancelled,
                                      figures.lost,
                                      figures.hung,
                                      figures.restarted,
                                      figures.steps_cancelled,
                                      figures.steps_kept_late,
                                      figures.steps_torn}) {
    EXPECT_GT(reached, 0U);
  }
}

// Former bugs of asynchronous devices: an abandoned loan lent its bytes to the next one, a wait
// ended with an earlier one, a cancelled step had no cause.
TEST(RandomFaults, ProgramsThatFoundMistakesAreRight) {
  FaultFigures figures;
  for (const std::uint64_t seed :
       {2602U, 6143U, 10565U, 17938U, 25143U, 26730U, 30284U, 54785U, 276880U, 327178U}) {
    const Bytes bytes = bytes_of_seed(seed, kPrograms.least_bytes, kPrograms.most_bytes);
    for (const Fusion fusion : {Fusion::off, Fusion::single, Fusion::on}) {
      FaultyRun run = faulty_run_of(bytes);
      run.fusion = fusion;
      run.values = fusion == Fusion::on ? Values::exact : run.values;
      run.plan.graphs = false;  // there were none
      EXPECT_THAT(judge_faulty_run(run, figures), ::testing::IsEmpty())
          << "seed " << seed << ", fusion " << static_cast<int>(fusion);
    }
  }
}

// A fused group computes with a fill; the fill's own record, which runs later, fails alone.
TEST(RandomFaults, ResultsOfAFillThatFailsAloneAreRight) {
  FaultFigures figures;
  const Bytes bytes = bytes_of_seed(108643, kPrograms.least_bytes, kPrograms.most_bytes);
  EXPECT_THAT(judge_faulty_run(faulty_run_of(bytes), figures), ::testing::IsEmpty());
}

/// Runs a program whose actual faults differ from those that the judge knows.
std::vector<std::string> run_with(std::uint64_t seed, const Plan& plan, const FaultPlan& faults) {
  const Bytes bytes = bytes_of_seed(seed, kPrograms.least_bytes, kPrograms.most_bytes);
  FaultFigures figures;
  return judge_faulty_run({.schedule = seed,
                           .plan = plan,
                           .faults = faults,
                           .sim = static_cast<int>(seed),
                           .program = bytes},
                          figures);
}

// The judge's purpose: it detects a bit that flips in a download.
TEST(RandomFaults, AWrongBitIsSeen) {
  const FaultPlan faults{
      .corrupted_downloads = {1, 2, 3, 4, 5, 6}};  // the last bits of zeros are not seen
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_FALSE(run_with(seed, {.faults = faults}, faults).empty()) << "seed " << seed;
  }
}

// It also detects a memory shortage when the plan has only other failures.
TEST(RandomFaults, MemoryThatIsShortThoughNobodyPlannedItIsSeen) {
  const Plan plan{.faults = {.failing_submits = {1, 2, 3}}, .has_page_each = true};
  const FaultPlan faults{.failing_allocation = 5, .failing_allocation_count = 3};
  int seen_count = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<std::string> wrong = run_with(seed, plan, faults);
    seen_count += std::ranges::any_of(wrong, [](const std::string& text) {
      return text.find("failed though nothing was planned") != std::string::npos;
    });
  }
  EXPECT_GT(seen_count, 0);
}

// A failing program is reported as bytes and reduced as bytes.
TEST(RandomFaults, AFailingProgramIsCutDown) {
  const FaultPlan faults{
      .corrupted_downloads = {1, 2, 3, 4, 5, 6}};  // the last bits of zeros are not seen
  FaultFigures figures;
  const auto fails = [&](std::span<const std::byte> bytes) {
    return !judge_faulty_run({.plan = {.faults = faults}, .faults = faults, .program = bytes},
                             figures)
                .empty();
  };
  const Bytes whole = bytes_of_seed(1, 400, 400);
  ASSERT_TRUE(fails(whole));
  const Bytes smallest = shrink(whole, fails, 200);
  EXPECT_TRUE(fails(smallest));
  EXPECT_LT(smallest.size(), 20U);
  EXPECT_EQ(from_hex(to_hex(whole)), whole);
}

}  // namespace
}  // namespace hearth::testing
