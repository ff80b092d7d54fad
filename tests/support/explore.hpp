// explore() runs a small concurrent program under many schedules of the manual executor. It keeps
// the first failing schedule as a replay file.
// A failure is an exception of the program, a deadlock, a thread that polls without end, a failed
// expectation, or an assert that aborts.
// Threads: the test's. Invariant: a replayed schedule takes the same steps.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <hearth/runtime/base/manual_executor.hpp>

namespace hearth::testing {

enum class Strategy : std::uint8_t {
  random,      ///< Every runnable thread with equal probability; a seed a schedule.
  pct,         ///< Priorities that change at random steps; a seed a schedule.
  exhaustive,  ///< All schedules with at most max_preemptions.
};

struct ExploreOptions {
  std::string name;  ///< Of the program, in its replay file: "lost_wake".
  Strategy strategy = Strategy::random;
  std::uint64_t schedules = 200;  ///< Maximum; an exhaustive search ends once it has run all.
  std::uint64_t first_seed = 1;
  int depth = 3;            ///< PCT: the number of steps whose order matters.
  int max_preemptions = 2;  ///< Exhaustive only.
  bool preempts_at_locks = true;
  std::uint64_t max_steps = 2'000'000;  ///< Limit of one schedule.
};

struct FoundFailure {
  std::string text;
  std::string replay_file;
  std::uint64_t schedule = 0;  ///< Its number, from 1.
};

struct Exploration {
  std::uint64_t schedules = 0;  ///< Schedules that ran.
  std::uint64_t steps = 0;      ///< Steps of all schedules.
  bool is_complete = false;     ///< Exhaustive, and all schedules ran.
  std::optional<FoundFailure> failure = {};
};

/// Runs as the logical thread "main". State that it shares with its threads is local to it, so that
/// each schedule starts anew.
using ExploredProgram = std::function<void(ManualExecutor&)>;

/// Stops at the first failure and prints the command that repeats it. If EXPLORE_REPLAY names a
/// replay file of this program, only that schedule runs.
[[nodiscard]] Exploration explore(const ExploreOptions& options, const ExploredProgram& program);

/// Runs the schedule in a replay file and returns its failure; empty if it passes.
///
/// Errors: throws Exception (bad_format) if the file belongs to another program.
[[nodiscard]] std::optional<std::string> replay(const ExploreOptions& options,
                                                const std::string& file,
                                                const ExploredProgram& program);

/// EXPLORE_SCHEDULES, which lengthens explorations; the fallback if it is not set.
[[nodiscard]] std::uint64_t schedule_count(std::uint64_t fallback);

/// Throws unless the condition holds. For programs whose failure is expected.
void require(bool condition, const std::string& text);

}  // namespace hearth::testing
