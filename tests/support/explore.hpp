// explore(): runs a small concurrent program under many schedules of the manual executor, and keeps
// the first one that fails as a replay file that repeats it at once.
// A failure is what the program throws, a deadlock, a thread that polls without end, a failed
// expectation, or an assert that aborts.
// Threads: the test's. Invariant: a found schedule, replayed, takes the same steps again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <hearth/runtime/base/manual_executor.hpp>

namespace hearth::testing {

enum class Strategy : std::uint8_t {
  random,      ///< Each thread that can run with the same chance; a seed a schedule.
  pct,         ///< Priorities that change now and then; a seed a schedule.
  exhaustive,  ///< All schedules with at most max_preemptions.
};

struct ExploreOptions {
  std::string name;  ///< Of the program, for its replay file: "lost_wake".
  Strategy strategy = Strategy::random;
  std::uint64_t schedules = 200;  ///< At most; exhaustive ends when it has seen all.
  std::uint64_t first_seed = 1;
  int depth = 3;            ///< PCT: steps whose order matters.
  int max_preemptions = 2;  ///< Exhaustive.
  bool preempts_at_locks = true;
  std::uint64_t max_steps = 2'000'000;  ///< Of one schedule.
};

struct FoundFailure {
  std::string text;
  std::string replay_file;
  std::uint64_t schedule = 0;  ///< The how-manyth, from 1.
};

struct Exploration {
  std::uint64_t schedules = 0;  ///< Run.
  std::uint64_t steps = 0;      ///< Of all of them.
  bool is_complete = false;     ///< Exhaustive, and all were run.
  std::optional<FoundFailure> failure = {};
};

/// Runs as the logical thread "main". What it shares with the threads it spawns lives inside, so
/// that each schedule starts anew.
using ExploredProgram = std::function<void(ManualExecutor&)>;

/// Ends at the first failure, and prints how to run it again. When the environment's EXPLORE_REPLAY
/// names a replay file of this program, that schedule alone is run.
[[nodiscard]] Exploration explore(const ExploreOptions& options, const ExploredProgram& program);

/// Runs the schedule in a replay file, and returns what fails.
///
/// Errors: throws Exception (bad_format) when the file is none of this program.
[[nodiscard]] std::optional<std::string> replay(const ExploreOptions& options,
                                                const std::string& file,
                                                const ExploredProgram& program);

/// EXPLORE_SCHEDULES, which makes long explorations of short ones; else the fallback.
[[nodiscard]] std::uint64_t schedule_count(std::uint64_t fallback);

/// For programs whose failure is expected: throws when the condition does not hold.
void require(bool condition, const std::string& text);

}  // namespace hearth::testing
