// Schedules: how the manual executor chooses the thread that runs at each step. A schedule chooses
// among runnable threads in turn, at random, by changing priorities (PCT), or as in a recorded run.
// Threads: owner only: the executor that received the schedule. Invariant: a choice depends on the
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

/// Returns the index of one of `runnable` (never empty, the longest ready first). `previous` is the
/// thread of the last step.
using ScheduleFn =
    UniqueFunction<std::size_t(std::span<const ThreadNumber> runnable, ThreadNumber previous)>;

/// Returns a schedule that runs the threads in turn.
[[nodiscard]] ScheduleFn in_turn();
/// Returns a schedule that picks each thread with the same probability.
[[nodiscard]] ScheduleFn random_schedule(std::uint64_t seed);

struct PctOptions {
  std::uint64_t seed = 1;
  /// Number of ordered steps that a bug needs. It is found with a probability of at least 1 /
  /// (threads · steps^(depth − 1)).
  int depth = 3;
  /// Approximate number of steps of the program; the priorities change within these.
  std::uint64_t step_count = 1000;
};

/// Returns a schedule that runs the thread of the highest priority. Priorities are random. At depth
/// − 1 steps the running thread falls behind all others; a polling thread does too.
///
/// Paper: Burckhardt et al., A randomized scheduler with probabilistic guarantees of finding bugs,
/// ASPLOS 2010.
[[nodiscard]] ScheduleFn pct_schedule(const PctOptions& options);

/// Returns a schedule that repeats the threads of an earlier run, one a step, then continues in
/// turn.
///
/// Errors: the schedule throws Exception (bad_format) if the thread of a step cannot run: the
/// program is not the recorded one.
[[nodiscard]] ScheduleFn replay_schedule(std::vector<ThreadNumber> choices);

/// Limit of steps that one thread may take in a row while others could run. Beyond it, PCT and
/// ScheduleSearch treat the thread as polling and let the others go first.
inline constexpr std::uint64_t kSchedulePatience = 500;

}  // namespace hearth
