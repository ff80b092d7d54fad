// hearth-bench: the benchmarks, and the subcommands of commands.hpp.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <initializer_list>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "commands.hpp"

namespace hearth::bench {

std::span<const Command> commands() noexcept {
  static constexpr Command kCommands[] = {
      {.name = "bisect",
       .does = "finds the fused group with which a program goes wrong",
       .run = bisect_command},
      {.name = "explain",
       .does = "shows which kernels a program's ops become, and why each ends",
       .run = explain_command},
      {.name = "memory",
       .does = "draws a program's memory over time, tensor by tensor",
       .run = memory_command},
      {.name = "peaks",
       .does = "measures peak rates of devices, by which tapes decide what to recompute",
       .run = peaks_command},
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
      "Usage: hearth-bench SUBCOMMAND ...     hearth-bench SUBCOMMAND --help lists options\n"
      "\nSubcommands:\n");
  for (const Command& command : commands()) {
    std::printf("  %-8s  %s\n", command.name, command.does);
  }
  std::printf("%s", benchmark_help());
}

// Edit distance by Wagner and Fischer; keeps one row of the table.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.at(b.size());
}

int refuse_subcommand(std::string_view given) {
  const std::span<const Command> known = commands();
  const auto nearest = std::ranges::min_element(
      known, {}, [given](const Command& command) { return distance(given, command.name); });
  std::string hint;
  if (distance(given, nearest->name) <= 2) {
    hint = std::string("did you mean '") + nearest->name + "'? ";
  }
  std::fprintf(stderr,
               "hearth-bench: no subcommand '%.*s'; %s--help lists what there is\n",
               static_cast<int>(given.size()),
               given.data(),
               hint.c_str());
  return 1;
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
