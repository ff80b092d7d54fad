// hearth-bench: the benchmarks, and the subcommands of commands.hpp.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <ostream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "commands.hpp"

namespace hearth::bench {

std::span<const Command> commands() noexcept {
  static constexpr Command kCommands[] = {
      {.name = "bisect",
       .does = "finds the fused group with which a program goes wrong",
       .run = bisect_command},
      {.name = "explain",
       .does = "says which kernels a program's ops become, and why each ends",
       .run = explain_command},
      {.name = "memory", .does = "draws who holds a program's memory", .run = memory_command},
      {.name = "replay",
       .does = "runs a recorded program again, and compares, reduces or times it",
       .run = replay_command},
      {.name = "trace",
       .does = "adds up what a traced program spent on each layer, op or line",
       .run = trace_command}};
  return kCommands;
}

namespace {

bool is_any_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, text) != all.end();
}

void print_help() {
  std::printf(
      "hearth-bench: measures Hearth, and looks into programs that use it.\n"
      "Usage: hearth-bench SUBCOMMAND ...     hearth-bench SUBCOMMAND --help says more\n"
      "       hearth-bench [--benchmark_...]  runs the benchmarks\n\nSubcommands:\n");
  for (const Command& command : commands()) {
    std::printf("  %-8s  %s\n", command.name, command.does);
  }
  std::printf(
      "\nBenchmarks:\n"
      "  --benchmark_list_tests            their names\n"
      "  --benchmark_filter=REGEX          those whose names match; all without it\n"
      "  --benchmark_min_time=SECONDS      how long each runs\n"
      "  --benchmark_repetitions=COUNT     how often\n"
      "  --benchmark_format=console|json|csv, --benchmark_out=FILE, "
      "--benchmark_out_format=...\n");
}

/// The library's own reporter, which explains the library's warning.
class Reporter final : public benchmark::ConsoleReporter {
 public:
  using ConsoleReporter::ConsoleReporter;

  // A warning that speaks of this program's build would be one of ours; the packaged library's is
  // that its own assertions are on.
  bool ReportContext(const Context& context) override {
    std::ostream& terminal = GetErrorStream();
    std::stringstream said;
    SetErrorStream(&said);
    const bool goes_on = ConsoleReporter::ReportContext(context);
    SetErrorStream(&terminal);
    for (std::string line; std::getline(said, line);) {
      terminal << (line.find("Library was built as DEBUG") == std::string::npos
                       ? line
                       : std::string("The packaged benchmark library checks its own assertions, "
                                     "outside of what is timed; Hearth is built as ") +
                             kBuild + ".")
               << '\n';
    }
    return goes_on;
  }

 private:
#ifdef NDEBUG
  static constexpr const char* kBuild = "a release";
#else
  static constexpr const char* kBuild = "a debug build: its times mean little";
#endif
};

/// Whether the library is to choose how results look.
bool asks_for_look(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](std::string_view argument) {
    return (argument.starts_with("--benchmark_format") &&
            argument != "--benchmark_format=console") ||
           argument.starts_with("--benchmark_counters_tabular") ||
           argument.starts_with("--benchmark_color");
  });
}

int run(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (is_any_of(first, {"--help", "-h", "help"})) {
    print_help();
    return 0;
  }
  for (const Command& command : commands()) {
    if (first == command.name) {
      return command.run(argc - 1, argv + 1);
    }
  }
  const bool has_own_look = asks_for_look(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    std::fprintf(stderr, "hearth-bench --help lists the subcommands\n");
    return 1;
  }
  if (has_own_look) {
    benchmark::RunSpecifiedBenchmarks();
  } else {
    Reporter reporter(isatty(STDOUT_FILENO) == 1 ? Reporter::OO_Defaults : Reporter::OO_None);
    benchmark::RunSpecifiedBenchmarks(&reporter);
  }
  benchmark::Shutdown();
  return 0;
}

}  // namespace
}  // namespace hearth::bench

int main(int argc, char** argv) {
  try {
    return hearth::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "hearth-bench: %s\n", error.what());
    return 1;
  }
}
