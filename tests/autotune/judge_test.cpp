#include <hearth/autotune/judge.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "scripted_times.hpp"

namespace hearth::detail {
namespace {

using hearth::testing::Noise;
using hearth::testing::ScriptedTimes;

// Pairs of two kernels of these times, with Gaussian noise.
std::vector<AbbaPair> make_pairs(int count, double incumbent_us, double challenger_us) {
  ScriptedTimes times(Noise::gaussian, 7);
  std::vector<AbbaPair> pairs(static_cast<std::size_t>(count));
  for (AbbaPair& pair : pairs) {
    pair.incumbent[0] = times.next(incumbent_us);
    pair.challenger[0] = times.next(challenger_us);
    pair.challenger[1] = times.next(challenger_us);
    pair.incumbent[1] = times.next(incumbent_us);
  }
  return pairs;
}

void preempt(Sample& sample) {
  sample.involuntary_switches = 1;
  sample.wall *= 50;
  sample.cpu *= 2;
}

std::vector<RunTime> times_of(const std::vector<double>& values) {
  std::vector<RunTime> times;
  times.reserve(values.size());
  for (const double value : values) {
    times.emplace_back(value);
  }
  return times;
}

TEST(MedianInterval, IsBetweenTheOrderStatisticsOfTheBinomialTable) {
  const RatioInterval nine = median_interval({9, 1, 8, 2, 7, 3, 6, 4, 5});
  EXPECT_EQ(nine.low, 2);  // 1 - 2 * (1 + 9) / 2^9 = 96.1 %
  EXPECT_EQ(nine.median, 5);
  EXPECT_EQ(nine.high, 8);
  std::vector<double> thirty_one;
  for (int i = 31; i > 0; --i) {
    thirty_one.push_back(i);
  }
  const RatioInterval wide = median_interval(std::move(thirty_one));
  EXPECT_EQ(wide.low, 10);  // 97.1 %; between 11 and 21 it were 92.9 %
  EXPECT_EQ(wide.median, 16);
  EXPECT_EQ(wide.high, 22);
}

TEST(MedianInterval, OfTooFewValuesIsOpen) {
  const RatioInterval five = median_interval({5, 1, 2, 3, 4});
  EXPECT_EQ(five.low, 0);
  EXPECT_EQ(five.median, 3);
  EXPECT_EQ(five.high, std::numeric_limits<double>::infinity());
  const RatioInterval six = median_interval({6, 5, 1, 2, 3, 4});
  EXPECT_EQ(six.low, 1);
  EXPECT_EQ(six.high, 6);
  EXPECT_EQ(median_interval({}).high, std::numeric_limits<double>::infinity());
}

TEST(FindHumps, SeesTwoAndSaysWhereTheyAre) {
  const Humps humps =
      find_humps(times_of({100, 101, 99, 100, 130, 131, 100, 129, 99, 130, 101, 100}));
  EXPECT_NEAR(humps.lower.count(), 100, 1);
  EXPECT_NEAR(humps.upper.count(), 130, 1);
  EXPECT_DOUBLE_EQ(humps.share, 4.0 / 12);
}

// The largest gap never exceeds the inner quartile range where the humps are equally large.
TEST(FindHumps, SeesEqualHumps) {
  EXPECT_TRUE(
      find_humps(times_of({100, 101, 99, 102, 98, 100, 130, 131, 129, 132, 128, 130})).are_two());
}

TEST(FindHumps, ATailOrARampOrOneOutlierIsNoHump) {
  std::vector<double> ramp;
  std::vector<double> tail;
  std::vector<double> outlier(30, 100);
  for (int i = 0; i < 30; ++i) {
    ramp.push_back(100 + i);
    tail.push_back(100 - 10 * std::log((i + 0.5) / 30));  // exponential
    outlier[static_cast<std::size_t>(i)] += 0.1 * i;
  }
  outlier[3] = 300;
  EXPECT_FALSE(find_humps(times_of(ramp)).are_two());
  EXPECT_FALSE(find_humps(times_of(tail)).are_two());
  EXPECT_FALSE(find_humps(times_of(outlier)).are_two());
  EXPECT_FALSE(find_humps(times_of(std::vector<double>(30, 100))).are_two());
}

TEST(FindHumps, CloseHumpsAndFewTimesAreNone) {
  EXPECT_FALSE(
      find_humps(times_of({100, 100, 100, 100, 100, 100, 104, 104, 104, 104, 104, 104})).are_two());
  EXPECT_FALSE(
      find_humps(times_of({100, 100, 100, 100, 100, 150, 150, 150, 150, 150, 150})).are_two());
}

TEST(Judge, StatesTheGainWithItsInterval) {
  const Judgement found = judge(make_pairs(15, 100, 80), {});
  EXPECT_EQ(found.verdict, Verdict::faster);
  EXPECT_EQ(found.doubt, Doubt::none);
  EXPECT_EQ(found.pair_count, 15);
  EXPECT_EQ(found.sample_count, 60);
  EXPECT_EQ(found.dirty_count, 0);
  EXPECT_NEAR(found.ratio.median, 0.8, 0.02);
  EXPECT_LT(found.ratio.low, found.ratio.median);
  EXPECT_GT(found.ratio.high, found.ratio.median);
  EXPECT_NEAR(found.low_ratio, 0.8, 0.04);
  EXPECT_NEAR(found.incumbent.median.count(), 100e3, 2e3);
  EXPECT_LT(found.incumbent.low, found.incumbent.median);
  EXPECT_EQ(found.challenger.clean_count, 30);
}

TEST(Judge, IsTheSameFromBothSides) {
  EXPECT_EQ(judge(make_pairs(15, 80, 100), {}).verdict, Verdict::slower);
  EXPECT_EQ(judge(make_pairs(31, 100, 100), {}).verdict, Verdict::same);
}

TEST(Judge, ConcludesNothingFromFewPairs) {
  const Judgement found = judge(make_pairs(8, 100, 50), {});
  EXPECT_EQ(found.verdict, Verdict::unclear);
  EXPECT_EQ(found.doubt, Doubt::few_pairs);
  EXPECT_EQ(judge({}, {}).doubt, Doubt::few_pairs);
}

TEST(Judge, ASmallGainIsNoWin) {
  const std::vector<AbbaPair> pairs = make_pairs(31, 100, 92);
  EXPECT_EQ(judge(pairs, {}).verdict, Verdict::faster);
  EXPECT_NE(judge(pairs, {.least_gain = 0.15}).verdict, Verdict::faster);
}

TEST(Judge, DirtySamplesMoveNoFigure) {
  std::vector<AbbaPair> pairs = make_pairs(15, 100, 80);
  const Judgement before = judge(pairs, {});
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    preempt(pairs[i].challenger[1]);  // its other sample stays
  }
  const Judgement found = judge(pairs, {});
  EXPECT_EQ(found.verdict, Verdict::faster);
  EXPECT_EQ(found.dirty_count, 8);
  EXPECT_EQ(found.pair_count, 15);
  EXPECT_NEAR(found.ratio.median, before.ratio.median, 0.02);
  EXPECT_EQ(found.challenger.clean_count, 22);
}

TEST(Judge, APairWithoutACleanSideIsNotUsable) {
  std::vector<AbbaPair> pairs = make_pairs(10, 100, 80);
  preempt(pairs[4].challenger[0]);
  preempt(pairs[4].challenger[1]);
  preempt(pairs[7].incumbent[0]);
  preempt(pairs[7].incumbent[1]);
  const Judgement found = judge(pairs, {});
  EXPECT_EQ(found.pair_count, 8);
  EXPECT_EQ(found.doubt, Doubt::few_pairs);
}

TEST(Judge, ConcludesNothingOnABusyMachine) {
  std::vector<AbbaPair> pairs = make_pairs(30, 100, 50);
  for (AbbaPair& pair : pairs) {
    preempt(pair.incumbent[0]);
    preempt(pair.challenger[0]);
  }
  EXPECT_EQ(judge(pairs, {}).verdict, Verdict::faster) << "half of the samples is clean";
  preempt(pairs[0].incumbent[1]);
  const Judgement found = judge(pairs, {});
  EXPECT_EQ(found.verdict, Verdict::unclear);
  EXPECT_EQ(found.doubt, Doubt::dirty);
  EXPECT_GT(found.dirty_share(), 0.5);
}

TEST(Judge, ConcludesNothingFromHumpsOfEitherSide) {
  for (const bool is_incumbent : {true, false}) {
    std::vector<AbbaPair> pairs = make_pairs(31, 100, 50);
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      for (Sample& sample : is_incumbent ? pairs[i].incumbent : pairs[i].challenger) {
        sample.wall = sample.wall * 3 / 2;
        sample.cpu = sample.cpu * 3 / 2;
      }
    }
    const Judgement found = judge(pairs, {});
    EXPECT_EQ(found.verdict, Verdict::unclear);
    EXPECT_EQ(found.doubt, Doubt::humps);
    EXPECT_EQ(found.incumbent.humps.are_two(), is_incumbent);
    EXPECT_EQ(found.challenger.humps.are_two(), !is_incumbent);
  }
}

// Challenger and incumbent differ by the clock alone: those samples are dirty.
TEST(Judge, AClockThatMovedInTheRoundIsNoGain) {
  std::vector<AbbaPair> pairs = make_pairs(31, 100, 100);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const bool is_fast = i % 3 == 0;
    for (auto* side : {&pairs[i].incumbent, &pairs[i].challenger}) {
      for (Sample& sample : *side) {
        sample.clock_mhz = is_fast ? 3300.0F : 3000.0F;
      }
    }
  }
  const Judgement found = judge(pairs, {});
  EXPECT_EQ(found.clock_mhz, 3000);
  EXPECT_EQ(found.dirty_count, 44);
  EXPECT_EQ(found.pair_count, 20);
}

TEST(Judge, NamesEveryVerdictAndDoubt) {
  EXPECT_EQ(name(Verdict::unclear), "unclear");
  EXPECT_EQ(name(Doubt::noise), "noise");
  EXPECT_EQ(name(Dirt::contended), "contended");
}

}  // namespace
}  // namespace hearth::detail
