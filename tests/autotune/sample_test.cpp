#include <hearth/autotune/sample.hpp>

#include <chrono>
#include <limits>

#include <gtest/gtest.h>

namespace hearth::detail {
namespace {

using std::chrono::microseconds;

Sample clean_sample() {
  return {.wall = microseconds(2000), .cpu = microseconds(1980), .run_count = 20};
}

TEST(Sample, TimesAreOfOneRun) {
  const Sample sample = clean_sample();
  EXPECT_DOUBLE_EQ(sample.wall_of_run().count(), 100e3);
  EXPECT_DOUBLE_EQ(sample.cpu_of_run().count(), 99e3);
}

TEST(Sample, OnlyAThreadIsComparedByItsCpuTime) {
  Sample sample = clean_sample();
  EXPECT_EQ(sample.paired_time(), sample.cpu_of_run());
  sample.source = SampleSource::host_crew;
  EXPECT_EQ(sample.paired_time(), sample.wall_of_run());
  sample.source = SampleSource::device;
  EXPECT_EQ(sample.paired_time(), sample.wall_of_run());
}

TEST(WhyDirty, AQuietSampleIsClean) {
  EXPECT_EQ(why_dirty(clean_sample(), {}), Dirt::none);
}

TEST(WhyDirty, ATimeThatCannotBeIsInvalid) {
  Sample sample = clean_sample();
  sample.run_count = 0;
  EXPECT_EQ(why_dirty(sample, {}), Dirt::invalid);
  sample = clean_sample();
  sample.wall = {};
  EXPECT_EQ(why_dirty(sample, {}), Dirt::invalid);
  sample = clean_sample();
  sample.cpu = {};
  EXPECT_EQ(why_dirty(sample, {}), Dirt::invalid);
  sample.source = SampleSource::device;  // has no CPU time
  EXPECT_EQ(why_dirty(sample, {}), Dirt::none);
}

TEST(WhyDirty, AShortSampleDoesNotCount) {
  Sample sample = clean_sample();
  sample.wall = microseconds(999);
  EXPECT_EQ(why_dirty(sample, {}), Dirt::too_short);
  EXPECT_EQ(why_dirty(sample, {.least_wall = microseconds(200)}), Dirt::none);
}

TEST(WhyDirty, AThreadShowsPreemptionAndWaits) {
  Sample sample = clean_sample();
  sample.involuntary_switches = 1;
  EXPECT_EQ(why_dirty(sample, {}), Dirt::preempted);
  sample = clean_sample();
  sample.cpu = microseconds(1880);
  EXPECT_EQ(why_dirty(sample, {}), Dirt::waited);
  sample.pressure = 0.9F;  // others wanted other cores
  sample.cpu = microseconds(1980);
  EXPECT_EQ(why_dirty(sample, {}), Dirt::none);
}

TEST(WhyDirty, ACrewShowsPressureAndSteal) {
  Sample sample = clean_sample();
  sample.source = SampleSource::host_crew;
  sample.cpu = {};
  EXPECT_EQ(why_dirty(sample, {}), Dirt::none);
  sample.pressure = 0.03F;
  EXPECT_EQ(why_dirty(sample, {}), Dirt::contended);
  sample.pressure = 0;
  sample.steal = 0.001F;
  EXPECT_EQ(why_dirty(sample, {}), Dirt::stolen);
}

TEST(WhyDirty, AnotherClockRateThanTheRoundsDoesNotCount) {
  Sample sample = clean_sample();
  sample.clock_mhz = 2000;
  EXPECT_EQ(why_dirty(sample, {}), Dirt::none) << "the round's rate is unknown";
  EXPECT_EQ(why_dirty(sample, {.round_mhz = 2050}), Dirt::none);
  EXPECT_EQ(why_dirty(sample, {.round_mhz = 2070}), Dirt::clock_moved);
  EXPECT_EQ(why_dirty(sample, {.round_mhz = 1930}), Dirt::clock_moved);
}

TEST(RunsFor, MakesASampleLongEnough) {
  const SampleLimits limits;
  EXPECT_EQ(runs_for(RunTime(1e3), limits), 1000);
  EXPECT_EQ(runs_for(RunTime(150e3), limits), 7);
  EXPECT_EQ(runs_for(RunTime(1e9), limits), 1);
  EXPECT_EQ(runs_for(RunTime(0), limits), 1 << 20) << "a clock that stands still";
  EXPECT_EQ(runs_for(RunTime(std::numeric_limits<double>::quiet_NaN()), limits), 1 << 20);
}

}  // namespace
}  // namespace hearth::detail
