#include <hearth/autotune/sample.hpp>

#include <algorithm>
#include <cmath>

namespace hearth::detail {

std::string_view name(Dirt dirt) noexcept {
  switch (dirt) {
    case Dirt::none:
      return "clean";
    case Dirt::invalid:
      return "invalid";
    case Dirt::too_short:
      return "too short";
    case Dirt::preempted:
      return "preempted";
    case Dirt::waited:
      return "waited";
    case Dirt::stolen:
      return "stolen";
    case Dirt::contended:
      return "contended";
    case Dirt::clock_moved:
      return "clock moved";
  }
  return "unknown";
}

Dirt why_dirty(const Sample& sample, const SampleLimits& limits) noexcept {
  const bool is_thread = sample.source == SampleSource::host_thread;
  if (sample.run_count < 1 || sample.wall.count() <= 0 || (is_thread && sample.cpu.count() <= 0)) {
    return Dirt::invalid;
  }
  if (sample.wall < limits.least_wall) {
    return Dirt::too_short;
  }
  if (limits.round_mhz > 0 && sample.clock_mhz > 0 &&
      std::abs(sample.clock_mhz / limits.round_mhz - 1) > limits.most_clock_change) {
    return Dirt::clock_moved;
  }
  if (is_thread) {
    if (sample.involuntary_switches > 0) {
      return Dirt::preempted;
    }
    return RunTime(sample.wall) > limits.most_wall_of_cpu * RunTime(sample.cpu) ? Dirt::waited
                                                                                : Dirt::none;
  }
  if (sample.source == SampleSource::host_crew) {
    if (sample.steal > limits.most_steal) {
      return Dirt::stolen;
    }
    return sample.pressure > limits.most_pressure ? Dirt::contended : Dirt::none;
  }
  return Dirt::none;
}

std::int32_t runs_for(RunTime one_run, const SampleLimits& limits) noexcept {
  constexpr double kMostRuns = 1 << 20;
  const double wanted = std::ceil(RunTime(limits.least_wall) / one_run);
  // The first comparison is false for NaN: a time of 0 gives infinity, 0 of 0 gives NaN.
  return static_cast<std::int32_t>(wanted < kMostRuns ? std::max(wanted, 1.0) : kMostRuns);
}

}  // namespace hearth::detail
