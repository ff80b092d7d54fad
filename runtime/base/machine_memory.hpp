// What memory the machine can still give this process. A kernel gives more addresses than it has
// memory, and a machine whose memory is full stands still long before anything is refused; so
// default budgets begin here, and so does each request for much memory at once.
// Stateless. Threads: any.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace hearth {

/// Bytes that could be filled now without swapping: what the machine has (MemAvailable), what the
/// control groups of the process (a container, say) leave, or what its own limits (ulimit -v, -d)
/// do, whichever is least. The base of the host devices' default budgets.
///
/// Cost: some files of /proc and /sys, about 0.1 ms.
[[nodiscard]] std::int64_t available_host_bytes();

/// Smaller requests are not compared with what the machine has.
inline constexpr std::int64_t kLargeHostBytes = std::int64_t{64} << 20;

namespace detail {
[[nodiscard]] bool machine_has_room(std::int64_t size_bytes);
}

/// Whether so many bytes may be filled: a 32nd of the machine's memory, and of each control
/// group's, stays free.
///
/// Cost: from kLargeHostBytes on as available_host_bytes(), which is little beside filling them.
[[nodiscard]] inline bool has_host_room(std::int64_t size_bytes) {
  return size_bytes < kLargeHostBytes || detail::machine_has_room(size_bytes);
}

namespace detail {

/// Memory of which a part is taken.
struct MemoryLimit {
  std::int64_t most_bytes = 0;
  std::int64_t left_bytes = 0;
};
/// What a file like /proc/meminfo says; nothing when it does not say it.
[[nodiscard]] std::optional<MemoryLimit> machine_limit(const std::filesystem::path& file);
/// memory.max in the folder of a control group (version 2), or memory.limit_in_bytes (version 1);
/// nothing when there is no limit, or no such folder.
[[nodiscard]] std::optional<MemoryLimit> control_group_limit(const std::filesystem::path& folder);

/// The addresses that the process may have (ulimit -v); nothing when there is no limit.
[[nodiscard]] std::optional<MemoryLimit> address_limit();

/// For tests: while one lives, exactly so many bytes can be filled.
class PretendedHostBytes final {
 public:
  explicit PretendedHostBytes(std::int64_t bytes);
  PretendedHostBytes(const PretendedHostBytes&) = delete;
  PretendedHostBytes& operator=(const PretendedHostBytes&) = delete;
  ~PretendedHostBytes();
};

}  // namespace detail
}  // namespace hearth
