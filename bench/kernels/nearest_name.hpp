// The nearest of several names, for messages about unknown ones. Pure functions. Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::bench {

/// Returns the number of letters to insert, remove or replace.
///
/// Paper: Wagner, Fischer, The string-to-string correction problem, 1974.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);
/// Returns "; did you mean 'matmul'?", or nothing if no name is near.
[[nodiscard]] std::string did_you_mean(std::string_view given,
                                       const std::vector<std::string>& names);
/// Returns one member of each element, as text.
template <class Range, class Member>
[[nodiscard]] std::vector<std::string> names_of(const Range& range, Member member) {
  std::vector<std::string> names;
  for (const auto& each : range) {
    names.emplace_back(each.*member);
  }
  return names;
}

}  // namespace hearth::bench
