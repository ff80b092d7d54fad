// The processor cores that this process may use, and pinning threads to them.
// Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// The cores that the process may run on, ascending. Never empty.
[[nodiscard]] std::vector<int> available_cores();

/// How many cores' worth of time the process may take, for crews and pools of threads: as many as
/// available_cores() has, at most what the quotas of its control groups leave (a container's
/// `--cpus`), rounded up. HEARTH_CORES sets it instead. At least 1.
///
/// Cost: some files of /proc and /sys, about 0.1 ms.
[[nodiscard]] int core_share();

/// So many of available_cores(). Where that is not all of them, those from the calling thread's own
/// on: two containers with a quota each do not meet on the machine's first cores.
[[nodiscard]] std::vector<int> shared_cores();

namespace detail {
/// core_share() of so many cores, by what was set and what quotas leave.
[[nodiscard]] int core_share_of(std::size_t core_count,
                                std::optional<std::int64_t> wanted,
                                std::optional<double> quota) noexcept;
/// The `count` cores from core `first` on, as in a ring; `cores` is ascending.
[[nodiscard]] std::vector<int> cores_from(const std::vector<int>& cores, int first, int count);
}  // namespace detail

/// Restricts the calling thread to these cores.
/// Errors: invalid_argument when the list is empty or none of them can be had.
Status pin_current_thread(std::span<const int> cores);

}  // namespace hearth
