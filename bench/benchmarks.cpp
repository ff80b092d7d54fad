// Runs the benchmarks of hearth-bench with Google Benchmark.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>

#include <benchmark/benchmark.h>

#include "commands.hpp"

namespace hearth::bench {
namespace {

/// The library's own reporter, with an explanation of the library's warning.
class Reporter final : public benchmark::ConsoleReporter {
 public:
  using ConsoleReporter::ConsoleReporter;

  // The packaged library warns that its own assertions are on, which reads like a fault of this
  // program's build.
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

/// Whether the arguments let the library choose the output format.
bool asks_for_look(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc, [](std::string_view argument) {
    return (argument.starts_with("--benchmark_format") &&
            argument != "--benchmark_format=console") ||
           argument.starts_with("--benchmark_counters_tabular") ||
           argument.starts_with("--benchmark_color");
  });
}

}  // namespace

const char* benchmark_help() noexcept {
  return "\nhearth-bench --benchmark_... runs the benchmarks:\n"
         "  --benchmark_list_tests            their names\n"
         "  --benchmark_filter=REGEX          those whose names match; .* is all\n"
         "  --benchmark_min_time=SECONDS      how long each runs\n"
         "  --benchmark_repetitions=COUNT     how often\n"
         "  --benchmark_format=console|json|csv, --benchmark_out=FILE, "
         "--benchmark_out_format=...\n";
}

int run_benchmarks(int argc, char** argv) {
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

}  // namespace hearth::bench
