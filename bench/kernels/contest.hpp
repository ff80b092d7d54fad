// The timing loop of hearth-bench. Two sides are sampled in turns until the judge of `autotune`
// decides; a kernel without an opponent is sampled against itself. Owns no clock: a side returns
// samples. Threads: any; the sides run on the calling thread.
// Invariants: (1) no figure stands on dirty samples; (2) only a busy machine is a reason to sample
// anew: no verdict is sampled twice.
#pragma once

#include <hearth/autotune/judge.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth::bench {

/// Runs one kernel `run_count` times and returns the sample.
using Side = std::function<Result<detail::Sample>(std::int32_t run_count)>;

/// Time of one run by clean samples. `count` 0: there are none, and no time is known.
struct Figure {
  detail::RunTime lowest = {};  ///< Low quantile: the second smallest of 18.
  detail::RunTime median = {};
  detail::RunTime from = {};  ///< Interval of the median, 96 %; 0: too few samples.
  detail::RunTime to = {};
  int count = 0;        ///< Clean samples.
  int dirty_count = 0;  ///< Samples that do not count.

  [[nodiscard]] bool is_known() const noexcept { return count > 0; }
};

struct ContestOptions {
  detail::JudgeOptions judge = {};
  /// How long a busy machine is waited for, and the rest between two tries.
  std::chrono::milliseconds patience = std::chrono::seconds(10);
  std::chrono::milliseconds rest = std::chrono::milliseconds(500);
  std::function<void(std::chrono::milliseconds)> sleep = {};  ///< Empty: one try.
};

struct Contest {
  detail::Judgement judgement;
  Figure incumbent;
  Figure challenger;
  std::vector<detail::Sample> incumbent_samples;  ///< All that were judged, dirty ones included.
  std::vector<detail::Sample> challenger_samples;
};

/// Judges a challenger against an incumbent.
///
/// Errors: those of the sides.
[[nodiscard]] Result<Contest> contest(const Side& incumbent,
                                      const Side& challenger,
                                      const ContestOptions& options);
/// Times one side, sampled against itself: `same` if its two halves agree, else its time is
/// unclear. Both figures hold the samples of both halves.
[[nodiscard]] Result<Contest> time_alone(const Side& side, const ContestOptions& options);

[[nodiscard]] Figure figure_of(std::span<const detail::Sample> samples,
                               const detail::SampleLimits& limits);

/// Returns "FASTER 0.486 [0.480 0.493]", or "UNCLEAR: a busy machine, 61 % dirty".
[[nodiscard]] std::string describe(const detail::Judgement& judgement);
/// Returns the verdict in capitals: "FASTER", "SLOWER", "SAME", "UNCLEAR".
[[nodiscard]] std::string_view word(detail::Verdict verdict) noexcept;

}  // namespace hearth::bench
