// The search through all states of a program under the model of the window: breadth first, so that
// a counterexample is as short as any. Threads: one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "window_model.hpp"

namespace hearth::model {

struct WindowSearch {
  std::uint64_t states = 0;
  std::uint64_t steps = 0;
  std::uint64_t ends = 0;  ///< states in which nothing is left to do
  /// What is wrong, the program, and the steps to it.
  std::optional<std::string> counterexample = {};
};

/// Takes every step from every state. Where nothing is wrong each state can come to an end, and
/// each end is right. Errors: std::length_error for a program of more than `most_states` states.
[[nodiscard]] WindowSearch search(const WindowProgram& program,
                                  const WindowRules& rules = {},
                                  std::uint64_t most_states = 8'000'000);

}  // namespace hearth::model
