// The load of the machine and the time of day, for the evidence of measurements.
// Values. Threads: any.
#pragma once

#include <chrono>

namespace hearth::detail {

struct MachineLoad {
  /// Time in which some task waited for a core, since the machine started (`some` of
  /// /proc/pressure/cpu); 0 on machines without it.
  std::chrono::microseconds waited = {};
  float load = 0;  ///< Load average of the last minute; 0 on machines without it.

  /// Cost: two reads of /proc, some 20 µs.
  [[nodiscard]] static MachineLoad now();
};

/// Returns the time of day, for dates on disk alone: it may jump.
[[nodiscard]] std::chrono::sys_seconds time_of_day() noexcept;

}  // namespace hearth::detail
