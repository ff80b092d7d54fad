// hearth-bench: the benchmarks, and the subcommands of commands.hpp.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "commands.hpp"
#include "kernels/nearest_name.hpp"

namespace hearth::bench {

std::span<const Command> commands() noexcept {
  static constexpr Command kCommands[] = {
      {.name = "bisect",
       .does = "finds the fused group with which a program goes wrong",
       .run = bisect_command},
      {.name = "compare",
       .does = "compares two builds, sampled in turns, or two reports",
       .run = compare_command},
      {.name = "devices",
       .does = "lists the devices of this machine, and what each lacks",
       .run = devices_command},
      {.name = "explain",
       .does = "shows which kernels a program's ops become, and why each ends",
       .run = explain_command},
      {.name = "kernel",
       .does = "times a kernel of yours, and compares it with another version",
       .run = kernel_command},
      {.name = "memory",
       .does = "draws a program's memory over time, tensor by tensor",
       .run = memory_command},
      {.name = "op",
       .does = "times one op, checked, and each of the kernels that may run it",
       .run = op_command},
      {.name = "page",
       .does = "writes the page of results from files of figures",
       .run = page_command},
      {.name = "peaks",
       .does = "measures peak rates of devices, by which tapes decide what to recompute",
       .run = peaks_command},
      {.name = "replay",
       .does = "runs a recorded program again, and compares, reduces or times it",
       .run = replay_command},
      {.name = "roofline",
       .does = "draws the rows of a report under the roofs of their device",
       .run = roofline_command},
      {.name = "run", .does = "times the rows of a suite: where the time goes", .run = run_command},
      {.name = "serve",
       .does = "measures a server of a model: answers a second, and their times",
       .run = serve_command},
      {.name = "trace",
       .does = "adds up what a traced program spent on each layer, op or line",
       .run = trace_command},
      {.name = "tune",
       .does = "tries kernels; shows, compares, ships and removes the results",
       .run = tune_command}};
  return kCommands;
}

namespace {

bool is_any_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, text) != all.end();
}

void print_help() {
  std::printf(
      "hearth-bench: measures Hearth, and looks into programs that use it.\n"
      "Usage: hearth-bench SUBCOMMAND ...     hearth-bench SUBCOMMAND --help lists options\n"
      "\nSubcommands:\n");
  for (const Command& command : commands()) {
    std::printf("  %-8s  %s\n", command.name, command.does);
  }
  std::printf("%s", benchmark_help());
}

int refuse_subcommand(std::string_view given) {
  std::fprintf(stderr,
               "hearth-bench: no subcommand '%.*s'%s; --help lists what there is\n",
               static_cast<int>(given.size()),
               given.data(),
               did_you_mean(given, names_of(commands(), &Command::name)).c_str());
  return 2;
}

int run(int argc, char** argv) {
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (is_any_of(first, {"", "--help", "-h", "help"})) {
    print_help();
    return 0;
  }
  for (const Command& command : commands()) {
    if (first == command.name) {
      return command.run(argc - 1, argv + 1);
    }
  }
  return first.starts_with("-") ? run_benchmarks(argc, argv) : refuse_subcommand(first);
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
