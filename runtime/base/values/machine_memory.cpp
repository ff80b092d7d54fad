#include <hearth/runtime/base/machine_memory.hpp>

#include <hearth/runtime/base/control_groups.hpp>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {
namespace {

constexpr std::int64_t kReservedShare = 32;
constexpr std::int64_t kKibibyte = 1024;
constexpr std::int64_t kNotPretended = -1;
std::atomic<std::int64_t> pretended_bytes{kNotPretended};

// Returns the value after a name, as in "MemTotal:  24 kB" and "file 300"; -1 if absent.
std::int64_t value_of(const std::filesystem::path& file, std::string_view name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name)) {
      return std::strtoll(line.c_str() + name.size(), nullptr, 10);
    }
  }
  return -1;
}

std::optional<std::int64_t> number_in(const std::filesystem::path& file) {
  std::int64_t number = 0;
  if (std::ifstream(file) >> number) {  // "max" is no number: no limit
    return number;
  }
  return std::nullopt;
}

detail::MemoryLimit machine() {
  if (const auto reported = detail::machine_limit("/proc/meminfo")) {
    return *reported;
  }
  // Without /proc: the installed memory, all of it assumed free.
  const std::int64_t installed =
      std::int64_t{::sysconf(_SC_PHYS_PAGES)} * std::int64_t{::sysconf(_SC_PAGESIZE)};
  return {.most_bytes = installed, .left_bytes = installed};
}

void add_groups(std::vector<detail::MemoryLimit>& limits) {
  detail::for_each_control_group("memory", [&limits](const std::filesystem::path& folder) {
    if (const auto limit = detail::control_group_limit(folder)) {
      limits.push_back(*limit);
    }
  });
}

std::vector<detail::MemoryLimit> machine_and_groups() {
  std::vector<detail::MemoryLimit> limits{machine()};
  add_groups(limits);
  return limits;
}

// Reads a `ulimit` and its use from /proc/self/status.
template <class Resource>
std::optional<detail::MemoryLimit> own_limit(Resource resource, std::string_view used) {
  ::rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  const auto most = static_cast<std::int64_t>(
      std::min<::rlim_t>(limit.rlim_cur, std::numeric_limits<std::int64_t>::max()));
  const std::int64_t now = std::max<std::int64_t>(0, value_of("/proc/self/status", used));
  return detail::MemoryLimit{.most_bytes = most,
                             .left_bytes = std::max<std::int64_t>(0, most - now * kKibibyte)};
}

// Returns what `ulimit` leaves, both of addresses and of writable memory.
std::int64_t left_by_own_limits() {
  std::int64_t left = std::numeric_limits<std::int64_t>::max();
  for (const auto& limit : {detail::address_limit(), own_limit(RLIMIT_DATA, "VmData:")}) {
    left = limit ? std::min(left, limit->left_bytes) : left;
  }
  return left;
}

}  // namespace

std::optional<detail::MemoryLimit> detail::machine_limit(const std::filesystem::path& file) {
  const std::int64_t most = value_of(file, "MemTotal:");
  const std::int64_t left = value_of(file, "MemAvailable:");
  if (most <= 0 || left < 0) {
    return std::nullopt;
  }
  return MemoryLimit{.most_bytes = most * kKibibyte, .left_bytes = left * kKibibyte};
}

std::optional<detail::MemoryLimit> detail::control_group_limit(
    const std::filesystem::path& folder) {
  // version 1 writes a huge number for "no limit"
  constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;
  std::error_code unreadable;  // an unreadable folder sets no limit
  const bool is_second = std::filesystem::exists(folder / "memory.max", unreadable);
  const auto most = number_in(folder / (is_second ? "memory.max" : "memory.limit_in_bytes"));
  auto used = number_in(folder / (is_second ? "memory.current" : "memory.usage_in_bytes"));
  if (!most || !used || *most >= kNoLimit) {
    return std::nullopt;
  }
  // The kernel evicts cached files when memory is needed.
  const std::filesystem::path statistics = folder / "memory.stat";
  for (const char* const name : {"active_file ", "inactive_file "}) {
    *used -= std::max<std::int64_t>(
        0, value_of(statistics, is_second ? name : std::string("total_") + name));
  }
  return MemoryLimit{.most_bytes = *most,
                     .left_bytes = std::clamp<std::int64_t>(*most - *used, 0, *most)};
}

std::optional<detail::MemoryLimit> detail::address_limit() {
  return own_limit(RLIMIT_AS, "VmSize:");
}

std::int64_t available_host_bytes() {
  const std::int64_t pretended = pretended_bytes.load(std::memory_order_acquire);
  if (pretended != kNotPretended) {
    return pretended;
  }
  std::int64_t left = left_by_own_limits();
  for (const detail::MemoryLimit& limit : machine_and_groups()) {
    left = std::min(left, limit.left_bytes);
  }
  return left;
}

bool detail::machine_has_room(std::int64_t size_bytes) {
  const std::int64_t pretended = pretended_bytes.load(std::memory_order_acquire);
  if (pretended != kNotPretended) {
    return size_bytes <= pretended;
  }
  // The process's own limits are excluded. The kernel enforces them at once, and they also count
  // addresses that are merely reserved.
  const std::vector<MemoryLimit> limits = machine_and_groups();
  return std::ranges::all_of(limits, [size_bytes](const MemoryLimit& limit) {
    return size_bytes <= limit.left_bytes - limit.most_bytes / kReservedShare;
  });
}

detail::PretendedHostBytes::PretendedHostBytes(std::int64_t bytes) {
  pretended_bytes.store(bytes, std::memory_order_release);
}
detail::PretendedHostBytes::~PretendedHostBytes() {
  pretended_bytes.store(kNotPretended, std::memory_order_release);
}

}  // namespace hearth
