// hearth-bench compare OLD NEW: two builds in turns, or two reports.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sched.h>

#include <hearth/runtime/base/cores.hpp>

#include "bench/commands.hpp"
#include "compare_reports.hpp"
#include "remote.hpp"
#include "session.hpp"

namespace hearth::bench {
namespace {

/// Both programs inherit the core and never run at once. On two cores, one of which has a busy
/// neighbour, a program compared with itself wins by 20 %.
Status stay_on_this_core() {
  const int core = ::sched_getcpu();
  return pin_current_thread({&core, 1});
}

Result<Report> compare_programs(const CommandLine& line, const std::string& command) {
  HEARTH_TRY(const ContestOptions options, contest_options(line));
  HEARTH_TRY(const double cores, line.number("--cores"));
  if (cores == 1) {
    HEARTH_TRY_STATUS(stay_on_this_core());
  }
  std::vector<std::unique_ptr<RemoteProgram>> programs;
  for (const std::string& program : line.names()) {
    HEARTH_TRY(std::unique_ptr<RemoteProgram> started,
               RemoteProgram::start(program,
                                    {"run",
                                     line.text("--filter"),
                                     "--serve",
                                     "--device",
                                     line.text("--device"),
                                     "--cores",
                                     line.text("--cores"),
                                     "--operands",
                                     line.text("--operands")}));
    programs.push_back(std::move(started));
  }
  LoadWatch load;
  Progress progress;
  Report report{.command = command,
                .device = line.text("--device"),
                .facts = machine_facts(),
                .warnings = machine_warnings()};
  const std::vector<std::string>& labels = programs[0]->labels();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto other = std::ranges::find(programs[1]->labels(), labels[i]);
    if (other == programs[1]->labels().end()) {
      continue;
    }
    progress.show(labels[i], i, labels.size());
    Row row{.name = labels[i], .heat = line.text("--operands")};
    const Result<Contest> found =
        contest(programs[0]->side(i),
                programs[1]->side(static_cast<std::size_t>(other - programs[1]->labels().begin())),
                options);
    if (found.has_value()) {
      set_figures(row, found.value().challenger, found.value().challenger_samples, {});
      set_verdict(row, found.value().judgement);
    } else {
      row.is_wrong = true;
      row.verdict_text = "FAILED";
      row.check = found.error().text;
    }
    report.rows.push_back(std::move(row));
  }
  for (auto& fact : load.facts()) {
    report.facts.push_back(std::move(fact));
  }
  return report;
}

bool is_report(const std::string& name) {
  return name.ends_with(".json");
}

}  // namespace

int compare_command(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  CommandLine line(
      "compare OLD NEW [options]",
      "Compares two builds of hearth-bench, sampled in turns, or two reports (.json) of `run`.\n"
      "A ratio below 1: NEW needs less time. Times are those of NEW. Reports of different "
      "sittings\n"
      "have wide intervals: compare programs where both still exist.",
      with_common_options({{"--filter", "F", "matmul", "Suite or filter of rows, as for run"}}));
  if (const std::optional<int> status = line.read(given)) {
    return *status;
  }
  if (line.names().size() != 2) {
    return refuse("compare", "it takes two programs or two reports", Exit::usage);
  }
  const auto reports = std::ranges::count_if(line.names(), is_report);
  if (reports == 1) {
    return refuse("compare", "a program cannot be compared with a report", Exit::usage);
  }
  const std::string command = fmt::format("hearth-bench compare {}", fmt::join(given, " "));
  const Result<Report> report =
      reports == 2 ? compare_reports(line, command) : compare_programs(line, command);
  if (!report.has_value()) {
    return refuse("compare", report.error().text, exit_of(report.error()));
  }
  if (report.value().rows.empty()) {
    return refuse("compare", "both have no row in common", Exit::usage);
  }
  const Status written = write_report(line, report.value());
  if (!written.has_value()) {
    return refuse("compare", written.error().text, Exit::wrong);
  }
  return static_cast<int>(exit_of(report.value(), true));
}

}  // namespace hearth::bench
