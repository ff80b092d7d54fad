// Schedules: how the manual executor chooses, at each step, which of the threads that can run goes
// next. In turn, at random, by priorities that change now and then (PCT), or as a run before.
// Threads: owner only: the executor that was given the schedule. Invariant: a choice depends on the
// arguments, the seed and earlier choices alone, so equal programs and seeds give equal steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <hearth/runtime/base/unique_function.hpp>

namespace hearth {

/// A logical thread's number: its place in the order of spawning, from 0.
using ThreadNumber = std::uint32_t;

/// Picks one of `runnable` (never empty, the longest ready first) by its index; `previous` is the
/// thread of the last step.
using ScheduleFn =
    UniqueFunction<std::size_t(std::span<const ThreadNumber> runnable, ThreadNumber previous)>;

/// Everyone in turn.
[[nodiscard]] ScheduleFn in_turn();
/// Each with the same chance.
[[nodiscard]] ScheduleFn random_schedule(std::uint64_t seed);

struct PctOptions {
  std::uint64_t seed = 1;
  /// A bug that needs `depth` steps in one order is found with a chance of at least
  /// 1 / (threads · steps^(depth − 1)).
  int depth = 3;
  /// About how many steps the program takes; the priorities change within these.
  std::uint64_t step_count = 1000;
};

/// The thread of the highest priority runs; priorities are random, and depth − 1 times the one that
/// runs falls behind all others. A thread that polls falls behind too.
///
/// Paper: Burckhardt et al., A randomized scheduler with probabilistic guarantees of finding bugs,
/// ASPLOS 2010.
[[nodiscard]] ScheduleFn pct_schedule(const PctOptions& options);

/// The threads of an earlier run, one a step, then in turn.
///
/// Errors: the schedule throws Exception (bad_format) when the thread of a step cannot run: the
/// program is not the one that was recorded.
[[nodiscard]] ScheduleFn replay_schedule(std::vector<ThreadNumber> choices);

/// Steps that one thread may take in a row, while others could run, before PCT and ScheduleSearch
/// take it for one that polls and let the others go first.
inline constexpr std::uint64_t kSchedulePatience = 500;

}  // namespace hearth
