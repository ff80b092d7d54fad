// The judge on scripted machines: thousands of duels whose true outcome is known.
#include <hearth/autotune/duel.hpp>

#include <algorithm>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "scripted_times.hpp"

namespace hearth::detail {
namespace {

using hearth::testing::Noise;
using hearth::testing::ScriptedTimes;

constexpr int kSeeds = 1000;
constexpr double kBaseUs = 20;

struct Tally {
  int faster = 0;
  int slower = 0;
  int same = 0;
  int unclear = 0;
  int humps = 0;  ///< Part of `unclear`.
  int dirty = 0;  ///< Part of `unclear`.
  int most_pairs = 0;
};

// Duels under the seeds 0 .. kSeeds - 1. The challenger takes `ratio` of the incumbent's time.
Tally tally(Noise noise, double ratio, int seeds = kSeeds) {
  Tally all;
  for (int seed = 0; seed < seeds; ++seed) {
    ScriptedTimes times(noise, static_cast<std::uint64_t>(seed));
    Duel duel({});
    int sample_count = 0;
    while (!duel.is_over()) {
      duel.add(times.next(duel.is_challenger_next() ? kBaseUs * ratio : kBaseUs));
      ++sample_count;
    }
    const Judgement& found = duel.judgement();
    all.faster += found.verdict == Verdict::faster ? 1 : 0;
    all.slower += found.verdict == Verdict::slower ? 1 : 0;
    all.same += found.verdict == Verdict::same ? 1 : 0;
    all.unclear += found.verdict == Verdict::unclear ? 1 : 0;
    all.humps += found.doubt == Doubt::humps ? 1 : 0;
    all.dirty += found.doubt == Doubt::dirty ? 1 : 0;
    all.most_pairs = std::max(all.most_pairs, sample_count / 4 - 1);
  }
  return all;
}

class OneHump : public ::testing::TestWithParam<Noise> {};

TEST_P(OneHump, EqualKernelsAreDeclaredDifferentInAtMostOneOfAHundred) {
  const Tally found = tally(GetParam(), 1.0);
  EXPECT_LE(found.faster, kSeeds / 100);
  EXPECT_LE(found.slower, kSeeds / 100);
  EXPECT_GE(found.same, kSeeds * 85 / 100) << "a judge that is never sure is of no use";
}

TEST_P(OneHump, AGainOfEightPercentIsFoundWithin31Pairs) {
  const Tally found = tally(GetParam(), 0.92);
  EXPECT_GE(found.faster, kSeeds * 95 / 100);
  EXPECT_EQ(found.slower, 0);
  EXPECT_LE(found.most_pairs, 31);
}

TEST_P(OneHump, ALossOfEightPercentIsFoundWithin31Pairs) {
  const Tally found = tally(GetParam(), 1 / 0.92);
  EXPECT_GE(found.slower, kSeeds * 95 / 100);
  EXPECT_EQ(found.faster, 0);
}

INSTANTIATE_TEST_SUITE_P(Duel,
                         OneHump,
                         ::testing::Values(Noise::gaussian,
                                           Noise::heavy_tail,
                                           Noise::drift,
                                           Noise::preemption,
                                           Noise::ticks));

TEST(Duel, NeverHasAWinnerUnderTwoHumps) {
  for (const double ratio : {1.0, 0.92, 1 / 0.92}) {
    const Tally found = tally(Noise::two_humps, ratio);
    EXPECT_EQ(found.unclear, kSeeds);
    EXPECT_EQ(found.humps, kSeeds);
  }
}

// Preempted samples, tails and wander at once. A busy machine has no verdict in every tenth duel.
TEST(Duel, EqualKernelsUnderLoadWinAtMostTwiceIn200) {
  for (int ratio_percent : {100, 92}) {
    const Tally found = tally(Noise::loaded, ratio_percent / 100.0, 200);
    if (ratio_percent == 100) {
      EXPECT_LE(found.faster + found.slower, 2);
    } else {
      EXPECT_GE(found.faster, 160);
      EXPECT_EQ(found.faster + found.dirty + found.humps, 200);
    }
  }
}

// The machine is 10 % slower in the second and third sample of every four. In the order ABBA ABBA
// ... all of them were the challenger's.
TEST(Duel, ADisturbanceWithThePeriodOfAPairPrefersNeitherSide) {
  ScriptedTimes times(Noise::ticks, 1);
  Duel duel({});
  for (int i = 0; !duel.is_over(); ++i) {
    duel.add(times.next(i % 4 == 1 || i % 4 == 2 ? kBaseUs * 1.1 : kBaseUs));
  }
  EXPECT_EQ(duel.judgement().verdict, Verdict::unclear);
  EXPECT_EQ(duel.judgement().doubt, Doubt::humps);
}

TEST(Duel, SamplesInTheOrderOfAbbaOrItsMirrorImage) {
  ScriptedTimes times(Noise::gaussian, 1);
  Duel duel({});
  std::string mirrored;
  while (!duel.is_over()) {
    std::string order;
    for (int i = 0; i < 4; ++i) {
      order += duel.is_challenger_next() ? 'B' : 'A';
      duel.add({});  // invalid, so that no verdict ends the duel
    }
    ASSERT_TRUE(order == "ABBA" || order == "BAAB") << order;
    mirrored += order == "BAAB" ? '1' : '0';
  }
  EXPECT_GE(std::ranges::count(mirrored, '1'), 3) << mirrored;
  EXPECT_GE(std::ranges::count(mirrored, '0'), 3) << mirrored;
}

// The first runs find cold caches: a slow first pair is no evidence.
TEST(Duel, DropsTheFirstPair) {
  ScriptedTimes times(Noise::gaussian, 1);
  Duel duel({});
  for (int i = 0; !duel.is_over(); ++i) {
    const double base = duel.is_challenger_next() ? kBaseUs * 0.8 : kBaseUs;
    duel.add(times.next(i < 4 ? base * 100 : base));
  }
  EXPECT_EQ(duel.judgement().verdict, Verdict::faster);
  EXPECT_EQ(duel.judgement().pair_count, 9);
  EXPECT_LT(duel.judgement().incumbent.median.count(), 2 * kBaseUs * 1e3);
}

TEST(Duel, EndsAtOnceOnABusyMachine) {
  ScriptedTimes times(Noise::gaussian, 1);
  Duel duel({});
  int sample_count = 0;
  for (; !duel.is_over(); ++sample_count) {
    Sample sample = times.next(duel.is_challenger_next() ? kBaseUs * 0.5 : kBaseUs);
    sample.involuntary_switches = sample_count % 4 == 0 ? 0U : 1U;
    duel.add(sample);
  }
  EXPECT_EQ(sample_count, 40);
  EXPECT_EQ(duel.judgement().verdict, Verdict::unclear);
  EXPECT_EQ(duel.judgement().doubt, Doubt::dirty);
}

}  // namespace
}  // namespace hearth::detail
