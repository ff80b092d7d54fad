// The judge: decides from interleaved samples whether a challenger is faster than the incumbent.
// Pure functions of values. Threads: any. No clock.
// Invariants: (1) a win needs three witnesses: the median of paired ratios, its interval, and the
// ratio of low quantiles; (2) no verdict but `unclear` stands on dirty samples or on a distribution
// with two humps; (3) humps are never averaged.
#pragma once

#include <hearth/autotune/sample.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hearth::detail {

/// Four neighbouring samples, in the order incumbent, challenger, challenger, incumbent (ABBA) or
/// its mirror image (BAAB).
struct AbbaPair {
  std::array<Sample, 2> incumbent;
  std::array<Sample, 2> challenger;
};

enum class Verdict : std::uint8_t {
  faster,   ///< The challenger is faster by JudgeOptions::least_gain or more.
  slower,   ///< The challenger is slower by that much.
  same,     ///< The interval lies within the least gain.
  unclear,  ///< Nothing is concluded; Judgement::doubt has the reason.
};
[[nodiscard]] std::string_view name(Verdict verdict) noexcept;

/// Reason of `unclear`.
enum class Doubt : std::uint8_t {
  none,
  few_pairs,  ///< Fewer than JudgeOptions::least_pairs usable pairs.
  dirty,      ///< More than half of the samples are dirty: wait for a quieter machine.
  humps,      ///< The times of one side form two humps.
  noise,      ///< The interval is too wide, or the witnesses differ.
};
[[nodiscard]] std::string_view name(Doubt doubt) noexcept;

struct JudgeOptions {
  double least_gain = 0.03;  ///< Least gain of a win: 3 % on hosts, 2 % on devices.
  int least_pairs = 9;       ///< Usable pairs before a verdict.
  SampleLimits limits = {};
};

/// Interval of a ratio challenger / incumbent.
struct RatioInterval {
  double low = 0;
  double median = 0;
  double high = 0;
};

/// Two separate groups of times of one side. `share` is the part of the samples in the upper one.
struct Humps {
  RunTime lower = {};
  RunTime upper = {};
  double share = 0;  ///< 0: one hump.

  [[nodiscard]] bool are_two() const noexcept { return share > 0; }
};

/// The times of one side of a duel, of clean samples.
struct SideTimes {
  RunTime low = {};  ///< Low quantile: the second smallest of 18.
  RunTime median = {};
  RunTime spread = {};  ///< Inner quartile range.
  Humps humps = {};
  int clean_count = 0;
};

struct Judgement {
  Verdict verdict = Verdict::unclear;
  Doubt doubt = Doubt::few_pairs;
  RatioInterval ratio = {};  ///< Ratio of paired times; covers the median with 96 %.
  double low_ratio = 0;      ///< Ratio of the low quantiles.
  SideTimes incumbent = {};
  SideTimes challenger = {};
  int pair_count = 0;    ///< Usable pairs.
  int sample_count = 0;  ///< Samples, dirty ones included.
  int dirty_count = 0;
  float clock_mhz = 0;  ///< Median clock rate; 0: unknown.

  [[nodiscard]] double dirty_share() const noexcept {
    return sample_count == 0 ? 0 : static_cast<double>(dirty_count) / sample_count;
  }
};

/// Judges the pairs. A side of a pair counts by its clean samples; a pair with a side without a
/// clean sample is not usable.
///
/// Cost: some microseconds for 31 pairs.
[[nodiscard]] Judgement judge(std::span<const AbbaPair> pairs, const JudgeOptions& options);

/// Returns the two humps of the times, or `share` 0.
///
/// Errors: none; fewer than 12 times never have two.
[[nodiscard]] Humps find_humps(std::vector<RunTime> times);

/// Returns the interval of the median between two order statistics that covers it with a
/// probability of at least 96 %. Fewer than 6 values have none: then low is 0 and high infinite.
[[nodiscard]] RatioInterval median_interval(std::vector<double> ratios);

}  // namespace hearth::detail
