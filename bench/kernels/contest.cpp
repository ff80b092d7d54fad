#include "contest.hpp"

#include <hearth/autotune/duel.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace hearth::bench {
namespace {

using detail::RunTime;
using detail::Sample;
using detail::SampleLimits;

constexpr std::int32_t kMostRuns = 1 << 20;

/// A side with the number of runs that make its samples long enough.
class Runner final {
 public:
  Runner(const Side& side, const SampleLimits& limits) : side_(side), limits_(limits) {}

  /// Finds the number of runs. The first run warms up: it makes plans and touches pages.
  Status prepare() {
    HEARTH_TRY_STATUS(side_(1).status());
    std::int32_t count = 1;
    for (;;) {
      HEARTH_TRY(const Sample sample, side_(count));
      // A fifth more than needed, because later runs are often faster.
      const std::int32_t wanted = detail::runs_for(sample.wall_of_run() / 1.2, limits_);
      // One run of a short kernel is mostly the clock's own time.
      if (wanted <= 2 * count || count >= kMostRuns) {
        count_ = wanted;
        return {};
      }
      count = std::min(wanted, 16 * count);
    }
  }
  Result<Sample> next() {
    HEARTH_TRY(const Sample sample, side_(count_));
    if (sample.wall < limits_.least_wall && count_ < kMostRuns) {
      count_ += count_ / 4 + 1;
    }
    return sample;
  }

 private:
  const Side& side_;
  const SampleLimits& limits_;
  std::int32_t count_ = 1;
};

Result<Contest> one_try(Runner& incumbent, Runner& challenger, const ContestOptions& options) {
  Contest result;
  detail::Duel duel(options.judge);
  while (!duel.is_over()) {
    const bool is_challenger = duel.is_challenger_next();
    HEARTH_TRY(const Sample sample, (is_challenger ? challenger : incumbent).next());
    duel.add(sample);
    (is_challenger ? result.challenger_samples : result.incumbent_samples).push_back(sample);
  }
  // The duel drops its first pair, which warms up.
  for (std::vector<Sample>* side : {&result.incumbent_samples, &result.challenger_samples}) {
    side->erase(side->begin(), side->begin() + 2);
  }
  result.judgement = duel.judgement();
  SampleLimits limits = options.judge.limits;
  limits.round_mhz = result.judgement.clock_mhz;
  result.incumbent = figure_of(result.incumbent_samples, limits);
  result.challenger = figure_of(result.challenger_samples, limits);
  return result;
}

}  // namespace

Result<Contest> contest(const Side& incumbent,
                        const Side& challenger,
                        const ContestOptions& options) {
  Runner first(incumbent, options.judge.limits);
  Runner second(challenger, options.judge.limits);
  HEARTH_TRY_STATUS(first.prepare());
  HEARTH_TRY_STATUS(second.prepare());
  std::chrono::milliseconds left = options.patience;
  for (;;) {
    HEARTH_TRY(Contest result, one_try(first, second, options));
    if (result.judgement.doubt != detail::Doubt::dirty || !options.sleep || left < options.rest) {
      return result;
    }
    options.sleep(options.rest);
    left -= options.rest;
  }
}

Result<Contest> time_alone(const Side& side, const ContestOptions& options) {
  HEARTH_TRY(Contest result, contest(side, side, options));
  std::vector<Sample> all = result.incumbent_samples;
  all.insert(all.end(), result.challenger_samples.begin(), result.challenger_samples.end());
  SampleLimits limits = options.judge.limits;
  limits.round_mhz = result.judgement.clock_mhz;
  result.incumbent = figure_of(all, limits);
  result.challenger = result.incumbent;
  return result;
}

Figure figure_of(std::span<const Sample> samples, const SampleLimits& limits) {
  Figure figure;
  std::vector<double> walls;
  for (const Sample& sample : samples) {
    if (why_dirty(sample, limits) == detail::Dirt::none) {
      walls.push_back(sample.wall_of_run().count());
    } else {
      ++figure.dirty_count;
    }
  }
  figure.count = static_cast<int>(walls.size());
  if (walls.empty()) {
    return figure;
  }
  std::ranges::sort(walls);
  figure.lowest = RunTime(walls[std::max<std::size_t>(walls.size() / 9, 1) - 1]);
  const detail::RatioInterval interval = detail::median_interval(std::move(walls));
  figure.median = RunTime(interval.median);
  if (std::isfinite(interval.high)) {  // fewer than 6 samples have none
    figure.from = RunTime(interval.low);
    figure.to = RunTime(interval.high);
  }
  return figure;
}

std::string describe(const detail::Judgement& judgement) {
  if (judgement.verdict == detail::Verdict::unclear) {
    return fmt::format("{}: {}, {:.0f} % dirty",
                       word(judgement.verdict),
                       name(judgement.doubt),
                       100 * judgement.dirty_share());
  }
  return fmt::format("{} {:.3f} [{:.3f} {:.3f}]",
                     word(judgement.verdict),
                     judgement.ratio.median,
                     judgement.ratio.low,
                     judgement.ratio.high);
}

std::string_view word(detail::Verdict verdict) noexcept {
  switch (verdict) {
    case detail::Verdict::faster:
      return "FASTER";
    case detail::Verdict::slower:
      return "SLOWER";
    case detail::Verdict::same:
      return "SAME";
    case detail::Verdict::unclear:
      return "UNCLEAR";
  }
  return "UNKNOWN";
}

}  // namespace hearth::bench
