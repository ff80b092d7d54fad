// The control groups of the process: folders of files that limit a container's or a service's use
// of the machine. Stateless. Threads: any.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

namespace hearth::detail {

/// Locations of the kernel's files; tests have folders of their own.
struct ControlGroupFiles {
  std::filesystem::path groups = "/proc/self/cgroup";  ///< "4:memory:/path", "0::/path".
  std::filesystem::path root = "/sys/fs/cgroup";
};

/// Calls `visit` with the folder of each group that has this controller, from the process's own
/// group up to the root. A folder need not exist: a container may see its own group at the root.
void for_each_control_group(std::string_view controller,
                            const std::function<void(const std::filesystem::path&)>& visit,
                            const ControlGroupFiles& files = {});

/// Returns the processors' worth of time that the groups leave: the least of all groups; nothing if
/// none sets a limit. A group's limit is cpu.max, or cpu.cfs_quota_us over cpu.cfs_period_us.
[[nodiscard]] std::optional<double> processor_quota(const ControlGroupFiles& files = {});

}  // namespace hearth::detail
