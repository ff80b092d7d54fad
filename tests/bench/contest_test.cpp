// The timing loop on scripted clocks: verdicts, tries on a busy machine, lengths of samples.
#include "bench/kernels/contest.hpp"

#include "tests/autotune/scripted_times.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth::bench {
namespace {

using detail::Sample;
using detail::Verdict;
using ::testing::HasSubstr;
using testing::Noise;
using testing::ScriptedTimes;

constexpr double kBaseUs = 20;

/// A side whose samples come from a script that it shares with the other side.
Side scripted(ScriptedTimes& times, double base_us) {
  return [&times, base_us](std::int32_t) -> Result<Sample> { return times.next(base_us); };
}

struct Tally {
  int faster = 0;
  int slower = 0;
  int same = 0;
  int unclear = 0;
};

Tally tally(Noise noise, double ratio, int seeds) {
  Tally all;
  for (int seed = 0; seed < seeds; ++seed) {
    ScriptedTimes times(noise, static_cast<std::uint64_t>(seed));
    const Contest found =
        contest(scripted(times, kBaseUs), scripted(times, kBaseUs * ratio), {}).value();
    (found.judgement.verdict == Verdict::faster   ? all.faster
     : found.judgement.verdict == Verdict::slower ? all.slower
     : found.judgement.verdict == Verdict::same   ? all.same
                                                  : all.unclear) += 1;
  }
  return all;
}

TEST(Contest, EqualKernelsAreTheSame) {
  for (const Noise noise : {Noise::gaussian, Noise::heavy_tail, Noise::drift}) {
    const Tally found = tally(noise, 1.0, 300);
    EXPECT_LE(found.faster + found.slower, 3);
    EXPECT_GE(found.same, 255);
  }
}

TEST(Contest, ATrueEightPercentIsFoundInBothDirections) {
  for (const Noise noise : {Noise::gaussian, Noise::heavy_tail, Noise::drift}) {
    EXPECT_GE(tally(noise, 0.92, 300).faster, 285);
    EXPECT_GE(tally(noise, 1 / 0.92, 300).slower, 285);
  }
}

TEST(Contest, TwoHumpsHaveNoVerdict) {
  EXPECT_EQ(tally(Noise::two_humps, 0.92, 100).unclear, 100);
}

TEST(Contest, AKernelAloneIsComparedWithItself) {
  ScriptedTimes times(Noise::ticks, 3);
  const Contest found = time_alone(scripted(times, kBaseUs), {}).value();
  EXPECT_EQ(found.judgement.verdict, Verdict::same);
  EXPECT_EQ(found.incumbent.count + found.incumbent.dirty_count,
            static_cast<int>(found.incumbent_samples.size() + found.challenger_samples.size()));
  EXPECT_NEAR(found.incumbent.lowest.count(), 1e3 * kBaseUs, 1000);  // an interrupt takes 4 %
  EXPECT_LE(found.incumbent.from, found.incumbent.median);
  EXPECT_LE(found.incumbent.median, found.incumbent.to);
}

/// Dirty for the first `dirty_count` samples.
Side disturbed(ScriptedTimes& times, int& dirty_count) {
  return [&](std::int32_t) -> Result<Sample> {
    Sample sample = times.next(kBaseUs);
    sample.involuntary_switches = dirty_count-- > 0 ? 1U : 0U;
    return sample;
  };
}

TEST(Contest, ABusyMachineIsWaitedForAndSampledAnew) {
  ScriptedTimes times(Noise::ticks, 1);
  int dirty_count = 100;
  int rests = 0;
  ContestOptions options;
  options.sleep = [&](std::chrono::milliseconds) { ++rests; };
  const Contest found = time_alone(disturbed(times, dirty_count), options).value();
  EXPECT_EQ(found.judgement.verdict, Verdict::same);
  EXPECT_GT(found.incumbent.count, 20);
  EXPECT_GT(rests, 0);
}

TEST(Contest, AMachineThatStaysBusyGivesNeitherVerdictNorTime) {
  ScriptedTimes times(Noise::ticks, 1);
  int dirty_count = 1'000'000;
  int rests = 0;
  ContestOptions options;
  options.patience = std::chrono::seconds(2);
  options.sleep = [&](std::chrono::milliseconds) { ++rests; };
  const Contest found = time_alone(disturbed(times, dirty_count), options).value();
  EXPECT_EQ(found.judgement.verdict, Verdict::unclear);
  EXPECT_FALSE(found.incumbent.is_known());
  EXPECT_EQ(rests, 4);
  EXPECT_THAT(describe(found.judgement), HasSubstr("UNCLEAR: a busy machine, 100 % dirty"));
}

// Otherwise a tool that tries until it likes the answer lies.
TEST(Contest, NoVerdictIsAskedForTwice) {
  ScriptedTimes times(Noise::two_humps, 1);
  ContestOptions options;
  options.sleep = [](std::chrono::milliseconds) { FAIL() << "two humps are no busy machine"; };
  EXPECT_EQ(time_alone(scripted(times, kBaseUs), options).value().judgement.doubt,
            detail::Doubt::humps);
}

TEST(Contest, SamplesAreLongEnoughWhateverTheKernelTakes) {
  for (const std::int64_t run_ns : {30, 1'000, 400'000, 7'000'000}) {
    const Side side = [&](std::int32_t run_count) -> Result<Sample> {
      const std::chrono::nanoseconds wall(run_ns * run_count + 200);  // the clock's own time
      return Sample{.wall = wall, .cpu = wall, .run_count = run_count};
    };
    const Contest found = time_alone(side, {}).value();
    for (const Sample& each : found.incumbent_samples) {
      EXPECT_GE(each.wall, std::chrono::milliseconds(1));
      EXPECT_LE(each.wall, std::chrono::nanoseconds(2'000'000 + run_ns));
    }
    EXPECT_EQ(found.judgement.verdict, Verdict::same);
  }
}

TEST(Contest, AFailureOfASideIsTheResult) {
  const Side side = [](std::int32_t) -> Result<Sample> {
    return Error{.code = ErrorCode::kernel_failed, .text = "it broke"};
  };
  EXPECT_EQ(time_alone(side, {}).error().text, "it broke");
}

}  // namespace
}  // namespace hearth::bench
