// The search through all states of a program under the window's model: breadth first, so that a
// counterexample is as short as possible. Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "window_model.hpp"

namespace hearth::model {

struct WindowSearch {
  std::uint64_t states = 0;
  std::uint64_t steps = 0;
  std::uint64_t ends = 0;  ///< states without further steps
  /// The violation, the program, and the steps to it.
  std::optional<std::string> counterexample = {};
};

/// Takes every step from every state. Without a counterexample, every state can reach an end, and
/// each end is right. Errors: std::length_error for a program of more than `most_states` states.
[[nodiscard]] WindowSearch search(const WindowProgram& program,
                                  const WindowRules& rules = {},
                                  std::uint64_t most_states = 8'000'000);

}  // namespace hearth::model
