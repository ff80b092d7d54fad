// The processor cores that this process may use, and pinning of threads to them. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// Returns the cores that the process may run on, ascending. Never empty.
[[nodiscard]] std::vector<int> available_cores();

/// Returns how many cores' worth of time the process may take, for crews and pools of threads.
/// Counts available_cores(), limited by the quotas of the control groups (a container's `--cpus`),
/// rounded up. HEARTH_CORES overrides it. At least 1.
///
/// Cost: some files of /proc and /sys, about 0.1 ms.
[[nodiscard]] int core_share();

/// Returns core_share() of the available_cores(). If that is not all of them, they start at the
/// calling thread's core. Two containers with a quota each then do not share the machine's first
/// cores.
[[nodiscard]] std::vector<int> shared_cores();

namespace detail {
/// Returns core_share() for core_count cores, given the setting and the quota.
[[nodiscard]] int core_share_of(std::size_t core_count,
                                std::optional<std::int64_t> wanted,
                                std::optional<double> quota) noexcept;
/// Returns `count` cores from core `first` on, as in a ring. `cores` is ascending.
[[nodiscard]] std::vector<int> cores_from(const std::vector<int>& cores, int first, int count);
}  // namespace detail

/// Restricts the calling thread to these cores.
///
/// Errors: invalid_argument if the list is empty or none of the cores is available.
Status pin_current_thread(std::span<const int> cores);

}  // namespace hearth
