#include <hearth/modules/parameter_group.hpp>

#include <hearth/runtime/base/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

namespace hearth::detail {
namespace {

[[noreturn]] void throw_group(std::string_view optimizer, const std::string& text, SourceLoc loc) {
  throw_error(Error{.code = ErrorCode::invalid_argument,
                    .text = fmt::format("{}: {}", optimizer, text),
                    .op = std::string(optimizer),
                    .location = loc});
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path) noexcept {
  std::size_t at = 0;  // position in the pattern
  std::size_t star = std::string_view::npos;
  std::size_t rest = 0;  // position in the path where the match of the last star ends
  for (std::size_t i = 0; i < path.size();) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      rest = i;
    } else if (at < pattern.size() && pattern[at] == path[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++rest;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

void require_sound(std::span<const ParameterGroup> groups,
                   std::string_view optimizer,
                   SourceLoc loc) {
  for (const ParameterGroup& group : groups) {
    if (group.match.empty()) {
      throw_group(optimizer, "the pattern of a parameter group is empty", loc);
    }
    if (!group.weight_decay && !group.rate_factor) {
      throw_group(optimizer, fmt::format("the group '{}' sets nothing", group.match), loc);
    }
    const auto require = [&](std::string_view setting, const std::optional<double>& value) {
      if (value && !(*value >= 0 && std::isfinite(*value))) {
        throw_group(optimizer,
                    fmt::format("{} of the group '{}' is {}, but must be 0 or more and finite",
                                setting,
                                group.match,
                                *value),
                    loc);
      }
    };
    require("weight_decay", group.weight_decay);
    require("rate_factor", group.rate_factor);
  }
}

std::vector<ParameterSettings> settings_for(std::span<const ParameterGroup> groups,
                                            std::span<const std::string> paths,
                                            std::string_view optimizer,
                                            SourceLoc loc) {
  std::vector<ParameterSettings> all(paths.size());
  for (const ParameterGroup& group : groups) {
    bool chooses = false;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (!matches(group.match, paths[i])) {
        continue;
      }
      chooses = true;
      all[i].weight_decay = group.weight_decay ? group.weight_decay : all[i].weight_decay;
      all[i].rate_factor = group.rate_factor.value_or(all[i].rate_factor);
    }
    if (!chooses) {
      throw_group(optimizer,
                  fmt::format("the pattern '{}' matches no parameter; there are: {}",
                              group.match,
                              fmt::join(paths, ", ")),
                  loc);
    }
  }
  return all;
}

}  // namespace hearth::detail
