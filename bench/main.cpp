// hearth-bench: the benchmarks, and the subcommands of commands.hpp.
#include <cstdio>
#include <exception>
#include <span>
#include <string_view>

#include <benchmark/benchmark.h>

#include "commands.hpp"

namespace hearth::bench {

std::span<const Command> commands() noexcept {
  static constexpr Command kCommands[] = {{.name = "bisect", .run = bisect_command},
                                          {.name = "explain", .run = explain_command},
                                          {.name = "memory", .run = memory_command},
                                          {.name = "replay", .run = replay_command}};
  return kCommands;
}

namespace {

int run(int argc, char** argv) {
  for (const Command& command : commands()) {
    if (argc > 1 && std::string_view(argv[1]) == command.name) {
      return command.run(argc - 1, argv + 1);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    for (const Command& command : commands()) {
      std::fprintf(stderr, "or: hearth-bench %s --help\n", command.name);
    }
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
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
