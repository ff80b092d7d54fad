// Which dispatches a barrier separates: by hand, and for random sequences of launches against a
// record of all dispatches.
#include <algorithm>
#include <array>
#include <random>

#include <gtest/gtest.h>

#include "backends/gpu/launches/hazard_tracker.hpp"

namespace hearth::gpu {
namespace {

constexpr ByteSpan kA{0, 64};
constexpr ByteSpan kB{64, 128};
constexpr ByteSpan kC{128, 192};

std::span<const ByteSpan> one(const ByteSpan& span) {
  return {&span, 1};
}

TEST(HazardTracker, ALaunchWaitsForWhatWritesItsBytesOrReadsWhatItWrites) {
  HazardTracker tracker;
  EXPECT_FALSE(tracker.begin(one(kA), one(kB)));
  EXPECT_FALSE(tracker.begin(one(kA), one(kC))) << "both read it";
  EXPECT_TRUE(tracker.begin(one(kB), one({192, 256}))) << "it was written";
  EXPECT_FALSE(tracker.begin(one(kA), one({256, 320}))) << "what the barrier was for is over";
  EXPECT_TRUE(tracker.begin({}, one(kA))) << "somebody reads it";
  EXPECT_TRUE(tracker.begin({}, one(kA))) << "somebody writes it";
  tracker.clear();
  EXPECT_FALSE(tracker.begin(one(kA), {}));
}

// A product in parts: its sums are added after a barrier, and then its result is written.
TEST(HazardTracker, WhatALaunchTouchesCountsBehindItsOwnBarriers) {
  HazardTracker tracker;
  EXPECT_FALSE(tracker.begin(one(kA), one(kB)));
  EXPECT_FALSE(tracker.also({}, one(kC)));
  tracker.barrier();
  EXPECT_TRUE(tracker.begin(one(kB), {})) << "its last dispatch writes the result";
}

TEST(HazardTracker, ABarrierForScratchForgetsNothingOfTheLaunch) {
  HazardTracker tracker;
  EXPECT_FALSE(tracker.begin({}, one(kA)));
  EXPECT_FALSE(tracker.also({}, one(kC)));
  EXPECT_FALSE(tracker.begin({}, one(kB)));
  EXPECT_TRUE(tracker.also({}, one(kC))) << "the other launch's scratch";
  EXPECT_FALSE(tracker.begin(one(kA), {})) << "that was before the barrier";
  EXPECT_TRUE(tracker.begin(one(kB), {}));
}

// Adjacent known spans merge into one. Otherwise launches without a barrier that read the same
// bytes and write adjacent ones would add spans without limit.
TEST(HazardTracker, BytesSideBySideCountAsOneSpan) {
  constexpr std::uint64_t kLaunches = 1000;
  const std::array<ByteSpan, 2> reads{kA, kC};
  for (const bool goes_up : {true, false}) {
    HazardTracker tracker;
    const auto written = [&](std::uint64_t i) {
      const std::uint64_t place = 1024 + 64 * (goes_up ? i : kLaunches - i);
      return ByteSpan{place, place + 64};
    };
    for (std::uint64_t i = 0; i < kLaunches; ++i) {
      ASSERT_FALSE(tracker.begin(reads, one(written(i)))) << i;
    }
    EXPECT_FALSE(tracker.begin(one(kB), {})) << "between two that are read";
    EXPECT_TRUE(tracker.begin(one(written(17)), {}));
    EXPECT_FALSE(tracker.begin(one(written(18)), {})) << "behind the barrier";
  }
}

/// All dispatches, with the barrier that precedes each.
class Course {
 public:
  struct Dispatch {
    int launch;
    int behind;
    std::vector<ByteSpan> reads;
    std::vector<ByteSpan> writes;
  };
  void note(int launch, const std::vector<ByteSpan>& reads, const std::vector<ByteSpan>& writes) {
    all_.push_back({launch, barriers_, reads, writes});
  }
  void barrier() { ++barriers_; }
  [[nodiscard]] int barriers() const { return barriers_; }
  [[nodiscard]] bool is_in_order() const {
    const auto meet = [](const std::vector<ByteSpan>& a, const std::vector<ByteSpan>& b) {
      return std::ranges::any_of(a, [&](const ByteSpan& span) {
        return std::ranges::any_of(b, [&](const ByteSpan& other) { return span.overlaps(other); });
      });
    };
    for (std::size_t i = 0; i < all_.size(); ++i) {
      for (std::size_t k = i + 1; k < all_.size(); ++k) {
        const bool is_apart = all_[i].behind != all_[k].behind || all_[i].launch == all_[k].launch;
        if (!is_apart &&
            (meet(all_[i].writes, all_[k].reads) || meet(all_[i].writes, all_[k].writes) ||
             meet(all_[i].reads, all_[k].writes))) {
          return false;
        }
      }
    }
    return true;
  }

 private:
  std::vector<Dispatch> all_;
  int barriers_ = 0;
};

/// Few spans at a time and many; short ones, and some of more granules than a word of the table has
/// bits.
class DrawnSpans {
 public:
  explicit DrawnSpans(int round) : random_(20251125U + static_cast<unsigned>(round)) {
    const std::array<std::uint64_t, 3> scales{1, 500, 3000};
    most_ = round % 2 == 0 ? 3 : 14;
    scale_ = scales[static_cast<std::size_t>(round) % scales.size()];
  }
  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }
  std::vector<ByteSpan> spans() {
    std::vector<ByteSpan> out(draw(most_));
    for (ByteSpan& span : out) {
      span.begin = scale_ * draw(most_ == 3 ? 4000 : 40000);
      span.end = span.begin + scale_ * draw(draw(8) == 0 ? 300 : 10) + 1;
    }
    return out;
  }

 private:
  std::mt19937 random_;
  unsigned most_ = 0;
  std::uint64_t scale_ = 0;
};

// Each dispatch of a launch may touch all of the bytes declared so far.
void run_launch(int launch, DrawnSpans& drawn, HazardTracker& tracker, Course& course) {
  std::vector<ByteSpan> reads = drawn.spans();
  std::vector<ByteSpan> writes = drawn.spans();
  if (tracker.begin(reads, writes)) {
    course.barrier();
  }
  for (unsigned step = 0; step < 1 + drawn.draw(3); ++step) {
    if (drawn.draw(3) == 0) {
      const std::vector<ByteSpan> scratch = drawn.spans();
      if (tracker.also({}, scratch)) {
        course.barrier();
      }
      writes.insert(writes.end(), scratch.begin(), scratch.end());
    }
    if (drawn.draw(3) == 0) {
      tracker.barrier();
      course.barrier();
    }
    course.note(launch, reads, writes);
  }
}

TEST(HazardTracker, RandomLaunchesThatMeetAreKeptApart) {
  for (int round = 0; round < 900; ++round) {
    DrawnSpans drawn(round);
    HazardTracker tracker;
    Course course;
    const int launches = 1 + static_cast<int>(drawn.draw(60));
    for (int launch = 0; launch < launches; ++launch) {
      run_launch(launch, drawn, tracker, course);
    }
    ASSERT_TRUE(course.is_in_order()) << "round " << round;
    EXPECT_LE(course.barriers(), 7 * launches);
  }
}

// The tracker finds a launch's many results by their granules. Bytes of another launch between
// them, or where the table wraps, are not its own.
TEST(HazardTracker, ALaunchWithManyResultsWaitsForItsOwnBytesOnly) {
  constexpr std::uint64_t kStep = 512;
  constexpr std::uint64_t kFar = std::uint64_t{4} << 20U;
  std::vector<ByteSpan> results;
  for (std::uint64_t i = 0; i < 24; ++i) {
    results.push_back({kStep * 2 * i, kStep * 2 * i + 300});
  }
  const ByteSpan beside{300, 512};
  const ByteSpan between{kStep, kStep + 300};
  const ByteSpan far_off{kFar, kFar + 300};
  const ByteSpan around{kStep, kStep * 2 + 1};
  const ByteSpan large{0, kFar};
  for (const ByteSpan& harmless : {beside, between, far_off}) {
    HazardTracker tracker;
    EXPECT_FALSE(tracker.begin({}, results));
    EXPECT_FALSE(tracker.begin(one(harmless), {})) << harmless.begin;
    EXPECT_FALSE(tracker.begin({}, one(harmless.begin == 300 ? between : beside)));
    EXPECT_TRUE(tracker.begin(one(results[7]), {}));
  }
  for (const ByteSpan& touching : {around, large, results[23]}) {
    HazardTracker tracker;
    EXPECT_FALSE(tracker.begin({}, results));
    EXPECT_TRUE(tracker.begin(one(touching), {})) << touching.begin;
    EXPECT_FALSE(tracker.begin(results, {})) << "behind the barrier";
  }
  HazardTracker tracker;
  EXPECT_FALSE(tracker.begin({}, one(large)));
  EXPECT_TRUE(tracker.begin({}, results)) << "some of a large one's bytes";
}

TEST(HazardTracker, FarMoreLaunchesThanItLooksAtAreKeptApartToo) {
  HazardTracker tracker;
  int barriers = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    barriers += tracker.begin(one({2 * i, 2 * i + 1}), one({2 * i + 1, 2 * i + 2})) ? 1 : 0;
  }
  EXPECT_GT(barriers, 5);
  EXPECT_LT(barriers, 100);
}

}  // namespace
}  // namespace hearth::gpu
