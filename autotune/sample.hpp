// A sample: one timed stretch of runs of a kernel, with the facts that decide whether it counts.
// Values. Threads: any. The trial runner fills them in; nothing here reads a clock.
// Invariant: a dirty sample never enters a low quantile, a median or an interval of the judge.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace hearth::detail {

/// Time of one run: fractions of a nanosecond matter for kernels of a microsecond.
using RunTime = std::chrono::duration<double, std::nano>;

/// Source of a sample's time. It decides which disturbances the sample can show.
enum class SampleSource : std::uint8_t {
  host_thread,  ///< Kernel on one thread: wall time and the thread's CPU time.
  host_crew,    ///< Kernel on several threads: wall time; CPU time of one thread hides waits.
  device,       ///< Ticks of the device, stored as wall time.
};

/// Equal consecutive runs, timed as a whole.
struct Sample {
  std::chrono::nanoseconds wall = {};
  std::chrono::nanoseconds cpu = {};  ///< CPU time of the thread; only of `host_thread`.
  std::int32_t run_count = 1;
  std::uint32_t involuntary_switches = 0;  ///< Switches of the thread (getrusage).
  /// Share of the sample in which some task waited for a core, 0 to 1 (`some` of
  /// /proc/pressure/cpu). 0 on machines without it.
  float pressure = 0;
  float steal = 0;      ///< Share of the sample that the hypervisor took, 0 to 1 (/proc/stat).
  float clock_mhz = 0;  ///< Clock rate beside the sample; 0: unknown.
  std::int64_t rotated_bytes = 0;  ///< Bytes of the operand sets that the runs walked; 0: hot.
  SampleSource source = SampleSource::host_thread;

  [[nodiscard]] RunTime wall_of_run() const noexcept { return RunTime(wall) / run_count; }
  [[nodiscard]] RunTime cpu_of_run() const noexcept { return RunTime(cpu) / run_count; }
  /// Time that paired ratios compare: CPU time of a thread, else wall time.
  [[nodiscard]] RunTime paired_time() const noexcept {
    return source == SampleSource::host_thread ? cpu_of_run() : wall_of_run();
  }
};

/// Reason why a sample does not count.
enum class Dirt : std::uint8_t {
  none,
  invalid,      ///< No run, or a time that is not positive.
  too_short,    ///< Shorter than SampleLimits::least_wall.
  preempted,    ///< The thread lost its core.
  waited,       ///< Wall time exceeds CPU time.
  stolen,       ///< The hypervisor took the core.
  contended,    ///< Other tasks wanted the cores.
  clock_moved,  ///< Clock rate differs from the round's.
};
[[nodiscard]] std::string_view name(Dirt dirt) noexcept;

struct SampleLimits {
  /// Least length. On hosts at least 200 µs; 1 ms spans the timer interrupts of virtual machines,
  /// each of which may take 40 µs. On devices 20 ticks of the timer.
  std::chrono::nanoseconds least_wall = std::chrono::milliseconds(1);
  double most_wall_of_cpu = 1.05;   ///< Limit of wall / CPU time.
  double most_pressure = 0.02;      ///< Limit of Sample::pressure.
  double most_steal = 0.0;          ///< Limit of Sample::steal.
  double most_clock_change = 0.03;  ///< Limit of the distance from `round_mhz`, relative.
  float round_mhz = 0;              ///< Median clock rate of the round; 0: unknown.
};

/// Returns why the sample does not count; `none` for a clean one.
[[nodiscard]] Dirt why_dirty(const Sample& sample, const SampleLimits& limits) noexcept;

/// Returns the number of runs that make a sample of `least_wall`, given the time of one run.
/// At least 1, at most 2^20.
[[nodiscard]] std::int32_t runs_for(RunTime one_run, const SampleLimits& limits) noexcept;

}  // namespace hearth::detail
