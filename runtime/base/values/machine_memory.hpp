// The memory that the machine can still give this process. A kernel grants more addresses than it
// has memory, and a machine whose memory is full stalls long before it refuses anything. So default
// budgets start from these numbers, and each large request is checked against them.
// Stateless. Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace hearth {

/// Returns the bytes that could be filled now without swapping. The least of: the machine's
/// MemAvailable, what the process's control groups (such as a container) leave, and its own limits
/// (ulimit -v, -d). The base of the host devices' default budgets.
///
/// Cost: some files of /proc and /sys, about 0.1 ms.
[[nodiscard]] std::int64_t available_host_bytes();

/// Smaller requests are not checked against the machine's memory.
inline constexpr std::int64_t kLargeHostBytes = std::int64_t{64} << 20;

namespace detail {
[[nodiscard]] bool machine_has_room(std::int64_t size_bytes);
}

/// Returns whether size_bytes may be filled. A 32nd of the machine's memory, and of each control
/// group's, stays free.
///
/// Cost: from kLargeHostBytes on that of available_host_bytes(), which is small beside filling
/// them.
[[nodiscard]] inline bool has_host_room(std::int64_t size_bytes) {
  return size_bytes < kLargeHostBytes || detail::machine_has_room(size_bytes);
}

namespace detail {

/// A memory limit, and the part of it that is left.
struct MemoryLimit {
  std::int64_t most_bytes = 0;
  std::int64_t left_bytes = 0;
};
/// Reads a file like /proc/meminfo; nothing if the values are missing.
[[nodiscard]] std::optional<MemoryLimit> machine_limit(const std::filesystem::path& file);
/// Reads memory.max in the folder of a control group (version 2), or memory.limit_in_bytes (version
/// 1); nothing if there is no limit, or no such folder.
[[nodiscard]] std::optional<MemoryLimit> control_group_limit(const std::filesystem::path& folder);

/// Returns the limit of addresses (ulimit -v); nothing if there is none.
[[nodiscard]] std::optional<MemoryLimit> address_limit();

/// For tests: while an instance lives, exactly `bytes` can be filled.
class PretendedHostBytes final {
 public:
  explicit PretendedHostBytes(std::int64_t bytes);
  PretendedHostBytes(const PretendedHostBytes&) = delete;
  PretendedHostBytes& operator=(const PretendedHostBytes&) = delete;
  ~PretendedHostBytes();
};

}  // namespace detail
}  // namespace hearth
