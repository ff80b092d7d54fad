#include <hearth/autotune/judge.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace hearth::detail {
namespace {

// Humps: the centres are this many standard deviations of the wider hump apart. Normal, uniform,
// exponential and log-normal times exceed 5 in less than 1 % of rounds of 36 samples or more.
constexpr double kLeastSeparation = 5.0;
constexpr double kLeastHumpDistance =
    0.05;                                 // of the centres, as a logarithm: closer ones are noise
constexpr double kLeastHumpShare = 0.10;  // fewer samples are outliers
constexpr std::size_t kLeastHumpSamples = 12;

constexpr double kMostDirty = 0.5;
constexpr double kMostOutside = 0.04;  // probability that an interval misses the median

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

float median_clock(std::span<const AbbaPair> pairs) {
  std::vector<double> rates;
  for (const AbbaPair& pair : pairs) {
    for (const auto* side : {&pair.incumbent, &pair.challenger}) {
      for (const Sample& sample : *side) {
        if (sample.clock_mhz > 0) {
          rates.push_back(static_cast<double>(sample.clock_mhz));
        }
      }
    }
  }
  std::ranges::sort(rates);
  return rates.empty() ? 0.0F : static_cast<float>(quantile(rates, 0.5));
}

/// The clean samples of one side of all pairs.
struct Side {
  std::vector<RunTime> walls;

  /// Adds the clean samples. Returns the least of their paired times; 0 without any. Disturbances
  /// only ever add time, so the least is less noisy than a mean.
  double add(const std::array<Sample, 2>& samples, const SampleLimits& limits, int& dirty_count) {
    double least = 0;
    for (const Sample& sample : samples) {
      if (why_dirty(sample, limits) != Dirt::none) {
        ++dirty_count;
        continue;
      }
      walls.push_back(sample.wall_of_run());
      const double time = sample.paired_time().count();
      least = least == 0 ? time : std::min(least, time);
    }
    return least;
  }

  [[nodiscard]] SideTimes times() const {
    if (walls.empty()) {
      return {};
    }
    std::vector<double> sorted;
    for (const RunTime time : walls) {
      sorted.push_back(time.count());
    }
    std::ranges::sort(sorted);
    const std::size_t rank = std::max<std::size_t>(sorted.size() / 9, 1);  // 2nd smallest of 18
    return {.low = RunTime(sorted[rank - 1]),
            .median = RunTime(quantile(sorted, 0.5)),
            .spread = RunTime(quantile(sorted, 0.75) - quantile(sorted, 0.25)),
            .humps = find_humps(walls),
            .clean_count = static_cast<int>(walls.size())};
  }
};

void conclude(Judgement& result, const JudgeOptions& options) {
  const auto doubt = [&](Doubt reason) {
    result.verdict = Verdict::unclear;
    result.doubt = reason;
  };
  if (result.dirty_share() > kMostDirty) {
    return doubt(Doubt::dirty);
  }
  if (result.pair_count < options.least_pairs) {
    return doubt(Doubt::few_pairs);
  }
  if (result.incumbent.humps.are_two() || result.challenger.humps.are_two()) {
    return doubt(Doubt::humps);
  }
  const double win = 1 - options.least_gain;
  const RatioInterval& ratio = result.ratio;
  result.doubt = Doubt::none;
  if (ratio.median <= win && ratio.high < 1 && result.low_ratio <= win) {
    result.verdict = Verdict::faster;
  } else if (ratio.median >= 1 / win && ratio.low > 1 && result.low_ratio >= 1 / win) {
    result.verdict = Verdict::slower;
  } else if (ratio.low > win && ratio.high < 1 / win) {
    result.verdict = Verdict::same;
  } else {
    doubt(Doubt::noise);
  }
}

}  // namespace

std::string_view name(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::faster:
      return "faster";
    case Verdict::slower:
      return "slower";
    case Verdict::same:
      return "same";
    case Verdict::unclear:
      return "unclear";
  }
  return "unknown";
}

std::string_view name(Doubt doubt) noexcept {
  switch (doubt) {
    case Doubt::none:
      return "none";
    case Doubt::few_pairs:
      return "too few pairs";
    case Doubt::dirty:
      return "a busy machine";
    case Doubt::humps:
      return "two humps";
    case Doubt::noise:
      return "noise";
  }
  return "unknown";
}

// Splits the sorted logarithms where the variance between the two parts is greatest (Otsu), then
// compares the distance of the centres with the wider part.
Humps find_humps(std::vector<RunTime> times) {
  const std::size_t count = times.size();
  if (count < kLeastHumpSamples) {
    return {};
  }
  std::ranges::sort(times);
  std::vector<double> sums{0};     // of the logarithms, relative to the first
  std::vector<double> squares{0};  // of their squares
  for (const RunTime time : times) {
    const double log = std::log(time / times.front());
    sums.push_back(sums.back() + log);
    squares.push_back(squares.back() + log * log);
  }
  const auto mean = [&](std::size_t begin, std::size_t end) {
    return (sums[end] - sums[begin]) / static_cast<double>(end - begin);
  };
  const auto deviation = [&](std::size_t begin, std::size_t end) {
    const double centre = mean(begin, end);
    const double square = (squares[end] - squares[begin]) / static_cast<double>(end - begin);
    return std::sqrt(std::max(square - centre * centre, 0.0));
  };
  const auto least =
      static_cast<std::size_t>(std::ceil(kLeastHumpShare * static_cast<double>(count)));
  std::size_t cut = least;
  double best = -1;
  for (std::size_t i = least; i <= count - least; ++i) {
    const double distance = mean(i, count) - mean(0, i);
    const double between = static_cast<double>(i * (count - i)) * distance * distance;
    if (between > best) {
      best = between;
      cut = i;
    }
  }
  const double distance = mean(cut, count) - mean(0, cut);
  const double width = std::max(deviation(0, cut), deviation(cut, count));
  if (distance < kLeastHumpDistance || distance < kLeastSeparation * width) {
    return {};
  }
  return {.lower = times[cut / 2],
          .upper = times[cut + (count - cut) / 2],
          .share = static_cast<double>(count - cut) / static_cast<double>(count)};
}

RatioInterval median_interval(std::vector<double> ratios) {
  if (ratios.empty()) {
    return {.low = 0, .median = 1, .high = std::numeric_limits<double>::infinity()};
  }
  std::ranges::sort(ratios);
  // The number of values below the median is binomial with probability 1/2. `rank` is the highest
  // order statistic whose two tails together stay within kMostOutside.
  const std::size_t count = ratios.size();
  double term = std::ldexp(1.0, -static_cast<int>(count));
  double tail = term;
  std::size_t rank = 0;
  while (rank < count / 2 && 2 * tail <= kMostOutside) {
    ++rank;
    term *= static_cast<double>(count - rank + 1) / static_cast<double>(rank);
    tail += term;
  }
  const double median = quantile(ratios, 0.5);
  if (rank == 0) {
    return {.low = 0, .median = median, .high = std::numeric_limits<double>::infinity()};
  }
  return {.low = ratios[rank - 1], .median = median, .high = ratios[count - rank]};
}

// Phases: the round's clock rate; the clean samples of each side and the ratios of usable pairs;
// the statistics; the verdict.
Judgement judge(std::span<const AbbaPair> pairs, const JudgeOptions& options) {
  Judgement result;
  result.clock_mhz = median_clock(pairs);
  SampleLimits limits = options.limits;
  limits.round_mhz = result.clock_mhz;
  Side incumbent;
  Side challenger;
  std::vector<double> ratios;
  for (const AbbaPair& pair : pairs) {
    const double before = incumbent.add(pair.incumbent, limits, result.dirty_count);
    const double after = challenger.add(pair.challenger, limits, result.dirty_count);
    if (before > 0 && after > 0) {
      ratios.push_back(after / before);
    }
  }
  result.sample_count = static_cast<int>(4 * pairs.size());
  result.pair_count = static_cast<int>(ratios.size());
  result.incumbent = incumbent.times();
  result.challenger = challenger.times();
  result.ratio = median_interval(std::move(ratios));
  if (result.incumbent.clean_count > 0 && result.challenger.clean_count > 0) {
    result.low_ratio = result.challenger.low / result.incumbent.low;
  }
  conclude(result, options);
  return result;
}

}  // namespace hearth::detail
