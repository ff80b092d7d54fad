// The subcommands of hearth-bench: `hearth-bench NAME ...` runs one of these, an option of Google
// Benchmark the benchmarks, and nothing prints help.
#pragma once

#include <span>

namespace hearth::bench {

/// `hearth-bench bisect COMMAND...`: which fused group is the first with which a program goes
/// wrong.
int bisect_command(int argc, char** argv);
/// `hearth-bench explain NAME|FILE`: which kernels a program's ops become, and why each ends.
int explain_command(int argc, char** argv);
/// `hearth-bench peaks DEVICE...`: what devices reach at most, measured now and kept.
int peaks_command(int argc, char** argv);
/// `hearth-bench replay FILE`: runs a recording again and prints how what it reads differs.
int replay_command(int argc, char** argv);
/// `hearth-bench memory FILE|EXAMPLE --out FILE.svg`: draws who holds memory.
int memory_command(int argc, char** argv);
/// `hearth-bench trace FILE --by layer|op|line`: what takes the time of a traced program.
int trace_command(int argc, char** argv);

struct Command {
  const char* name;
  const char* does;                   ///< In a line.
  int (*run)(int argc, char** argv);  ///< Without the program's name; returns the exit status.
};
[[nodiscard]] std::span<const Command> commands() noexcept;

/// What --help says of the benchmarks, which a build may lack (HEARTH_BUILD_BENCH).
[[nodiscard]] const char* benchmark_help() noexcept;
/// Runs those that the arguments choose; returns the exit status.
int run_benchmarks(int argc, char** argv);

}  // namespace hearth::bench
