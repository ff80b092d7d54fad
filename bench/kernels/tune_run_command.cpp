// hearth-bench tune run [SUITE|FILTER|PROBLEM...]: trials at the user's request.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/commands.hpp"
#include "session.hpp"
#include "tune_run.hpp"

namespace hearth::bench {
namespace {

CommandLine command_line() {
  return {
      "tune run [SUITE|FILTER|PROBLEM...] [options]",
      "Runs the trials of a program's `Runtime::tune` and keeps the results, which programs on\n"
      "this machine read from now on. Stored results are not tried again: `tune clear` removes\n"
      "them. HEARTH_CORES sets the cores, as for a program.\n"
      "Without names: the suites matmul and conv. PROBLEM: \"matmul m=32 n=512 k=512\", with\n"
      "the words of `op KIND`. `run --help` lists the suites.",
      with_report_options({{"--device", "NAME", "cpu:0", "Device: cpu:0, ..."},
                           {"--seconds", "N", "300", "No trial begins later"},
                           {"--level",
                            "LEVEL",
                            "",
                            "Candidates to try: minimal 2, balanced 4, full all [HEARTH_AUTOTUNE]"},
                           {"--list", "", "", "Print the problems, and run nothing"}})};
}

void print_targets(const std::vector<TuneTarget>& targets) {
  for (const TuneTarget& each : targets) {
    fmt::print("{}{}{}  {}\n",
               each.suite,
               each.suite.empty() ? "" : "/",
               each.name,
               each.suite.empty() ? "" : each.problem.text);
  }
}

/// Programs follow the environment, not the option.
std::vector<std::string> warnings() {
  std::vector<std::string> all = machine_warnings();
  const Result<AutotuneLevel> level = autotune_level(detail::Settings::from_environment());
  if (level.has_value() && level.value() == AutotuneLevel::off) {
    all.emplace_back("HEARTH_AUTOTUNE=off: programs in this environment read no results");
  }
  return all;
}

Result<int> tune(const CommandLine& line, const std::string& command) {
  HEARTH_TRY(const std::vector<TuneTarget> targets, tune_targets(line.names()));
  if (line.has("--list")) {
    print_targets(targets);
    return static_cast<int>(Exit::fine);
  }
  HEARTH_TRY(const double seconds, line.number("--seconds"));
  if (!(seconds > 0 && seconds <= 1e6)) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "--seconds is above 0, and at most 1000000"};
  }
  HEARTH_TRY(const AutotuneLevel level, level_of_trials(line.text("--level")));
  HEARTH_TRY(const std::unique_ptr<TuneRun> run, TuneRun::open(line.text("--device"), level));
  const LoadWatch load;
  Report report{.command = command,
                .device = run->info().description,
                .facts = machine_facts(),
                .warnings = warnings()};
  report.facts.emplace_back("level", detail::name(level));
  report.facts.emplace_back("store", run->store_path());
  const Deadline deadline =
      Deadline::in(std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds)));
  {
    Progress progress;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      progress.show(targets[i].name, i, targets.size());
      report.rows.push_back(run->tune(targets[i], deadline));
    }
  }
  return finish_report(line, std::move(report), load, false);
}

}  // namespace

int tune_run_command(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  CommandLine line = command_line();
  if (const std::optional<int> status = line.read(given)) {
    return *status;
  }
  const Result<int> done =
      tune(line, fmt::format("hearth-bench tune run {}", fmt::join(given, " ")));
  return done.has_value() ? done.value()
                          : refuse("tune run", done.error().text, exit_of(done.error()));
}

}  // namespace hearth::bench
