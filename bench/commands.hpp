// The subcommands of hearth-bench. `hearth-bench NAME ...` runs one of them, an option of Google
// Benchmark runs the benchmarks, and no argument prints help.
#pragma once

#include <span>

namespace hearth::bench {

/// `hearth-bench bisect COMMAND...`: finds the first fused group with which a program fails.
int bisect_command(int argc, char** argv);
/// `hearth-bench compare OLD NEW`: two builds in turns, or two reports.
int compare_command(int argc, char** argv);
/// `hearth-bench devices`: lists devices and what each lacks.
int devices_command(int argc, char** argv);
/// `hearth-bench explain NAME|FILE`: shows the kernels of a program's ops, and why each ends.
int explain_command(int argc, char** argv);
/// `hearth-bench kernel FILE --against FILE`: compares two versions of a kernel.
int kernel_command(int argc, char** argv);
/// `hearth-bench op KIND --m ... --candidates all`: times one op and its candidates.
int op_command(int argc, char** argv);
/// `hearth-bench page FOLDER`: writes RESULTS.md from files of figures.
int page_command(int argc, char** argv);
/// `hearth-bench peaks DEVICE...`: measures the peaks of devices and stores them.
int peaks_command(int argc, char** argv);
/// `hearth-bench replay FILE`: runs a recording again and prints how its results differ.
int replay_command(int argc, char** argv);
/// `hearth-bench roofline REPORT.json --svg FILE`: draws rows under the roofs of their device.
int roofline_command(int argc, char** argv);
/// `hearth-bench run SUITE|FILTER`: times the rows of a suite.
int run_command(int argc, char** argv);
/// `hearth-bench serve MODEL`: measures a ModelServer under load.
int serve_command(int argc, char** argv);
/// `hearth-bench memory FILE|EXAMPLE --out FILE.svg`: draws the owners of memory.
int memory_command(int argc, char** argv);
/// `hearth-bench trace FILE --by layer|op|line`: sums the times of a traced program's kernels.
int trace_command(int argc, char** argv);
/// `hearth-bench tune run|show|diff|export|import|clear`: trials, and stored tuning results.
int tune_command(int argc, char** argv);
/// `hearth-bench tune run SUITE`: trials; tune_command() calls it.
int tune_run_command(int argc, char** argv);

struct Command {
  const char* name;
  const char* does;  ///< Description in one line.
  /// Arguments without the program's name; returns the exit status.
  int (*run)(int argc, char** argv);
};
[[nodiscard]] std::span<const Command> commands() noexcept;

/// Text of --help about the benchmarks, which a build may lack (HEARTH_BUILD_BENCH).
[[nodiscard]] const char* benchmark_help() noexcept;
/// Runs the benchmarks that the arguments select; returns the exit status.
int run_benchmarks(int argc, char** argv);

}  // namespace hearth::bench
