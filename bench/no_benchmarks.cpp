// Replaces benchmarks.cpp if HEARTH_BUILD_BENCH is off: hearth-bench then has only its subcommands.
#include <cstdio>

#include "commands.hpp"

namespace hearth::bench {

const char* benchmark_help() noexcept {
  return "\nIt was built without its benchmarks (-D HEARTH_BUILD_BENCH=ON, which needs "
         "libbenchmark-dev).\n";
}

int run_benchmarks(int /*argc*/, char** /*argv*/) {
  std::fprintf(stderr, "hearth-bench: built without its benchmarks; --help lists what it has\n");
  return 1;
}

}  // namespace hearth::bench
