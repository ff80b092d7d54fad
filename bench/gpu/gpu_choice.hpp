// Command line of hearth-gpu-bench.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace hearth::bench {

struct GpuChoice {
  std::string device = "vulkan:0";
  std::vector<std::string> sections = {};  ///< Empty: all.
  bool helps = false;
  std::string unknown = {};  ///< An unknown argument; empty: none.

  [[nodiscard]] bool has(std::string_view section) const {
    return sections.empty() || std::ranges::find(sections, section) != sections.end();
  }
};

[[nodiscard]] inline GpuChoice parse_gpu_choice(const std::vector<std::string>& arguments,
                                                std::span<const std::string_view> sections) {
  GpuChoice choice;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--device" && i + 1 < arguments.size()) {
      choice.device = arguments[++i];
    } else if (argument == "--help" || argument == "-h") {
      choice.helps = true;
    } else if (std::ranges::find(sections, argument) != sections.end()) {
      choice.sections.push_back(argument);
    } else {
      choice.unknown = argument;
    }
  }
  return choice;
}

/// Prints the usage and the unknown argument. Returns the exit status.
[[nodiscard]] inline int explain_gpu_choice(const GpuChoice& choice,
                                            std::span<const std::string_view> sections) {
  if (!choice.unknown.empty()) {
    fmt::print(stderr, "hearth-gpu-bench: no section or option '{}'\n", choice.unknown);
  }
  fmt::print(choice.unknown.empty() ? stdout : stderr,
             "usage: hearth-gpu-bench [SECTION ...] [--device vulkan:0]\nsections: {}\n",
             fmt::join(sections, " "));
  return choice.unknown.empty() ? 0 : 2;
}

}  // namespace hearth::bench
