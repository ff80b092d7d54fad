#include <hearth/runtime/base/control_groups.hpp>

#include <algorithm>
#include <fstream>
#include <string>

namespace hearth::detail {
namespace {

bool lists_controller(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == name) {
      return true;
    }
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

std::optional<double> microseconds_in(const std::filesystem::path& file) {
  double number = 0;
  if (std::ifstream(file) >> number) {
    return number;
  }
  return std::nullopt;
}

// Reads the quota. Version 2 has "50000 100000", or "max 100000" without a limit; version 1 has -1.
std::optional<double> quota_of(const std::filesystem::path& folder) {
  std::optional<double> quota;
  std::optional<double> period;
  std::ifstream both(folder / "cpu.max");
  double first = 0;
  double second = 0;
  if (both >> first >> second) {
    quota = first;
    period = second;
  } else {
    quota = microseconds_in(folder / "cpu.cfs_quota_us");
    period = microseconds_in(folder / "cpu.cfs_period_us");
  }
  const bool is_limit = quota && period && *quota > 0 && *period > 0;
  return is_limit ? std::optional(*quota / *period) : std::nullopt;
}

}  // namespace

// A line of version 2 names no controller, and its folder is at the root. Version 1 has a folder
// for each controller, or for several that are mounted together.
void for_each_control_group(std::string_view controller,
                            const std::function<void(const std::filesystem::path&)>& visit,
                            const ControlGroupFiles& files) {
  std::ifstream groups(files.groups);
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !lists_controller(controllers, controller)) {
      continue;
    }
    const std::filesystem::path root =
        controllers.empty() ? files.root : files.root / std::string(controller);
    for (std::filesystem::path path = line.substr(second + 1);; path = path.parent_path()) {
      visit(root / path.relative_path());
      if (!path.has_relative_path()) {
        break;
      }
    }
  }
}

std::optional<double> processor_quota(const ControlGroupFiles& files) {
  std::optional<double> least;
  for_each_control_group(
      "cpu",
      [&least](const std::filesystem::path& folder) {
        if (const std::optional<double> quota = quota_of(folder)) {
          least = std::min(least.value_or(*quota), *quota);
        }
      },
      files);
  return least;
}

}  // namespace hearth::detail
