// hearth-bench run SUITE|FILTER: times the rows of a suite.
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/commands.hpp"
#include "remote.hpp"
#include "session.hpp"
#include "suites.hpp"

namespace hearth::bench {
namespace {

std::string about() {
  std::string text =
      "Times the kernels that the device's own rules choose, each checked against the reference.\n"
      "FILTER: a suite, `all`, or a part of a row's name or problem. Suites:\n";
  for (const Suite& suite : suites()) {
    text += fmt::format("  {:<11} {:>3} rows: {}\n", suite.name, suite.rows.size(), suite.about);
  }
  return text;
}

void print_rows(const std::vector<SelectedRow>& rows) {
  for (const SelectedRow& each : rows) {
    fmt::print("{}/{}  {}\n", each.suite, each.row.name, each.row.problem);
  }
}

void measure(Session& session, const std::vector<SelectedRow>& selected) {
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const SelectedRow& each = selected[i];
    session.progress().show(std::string(each.row.name), i, selected.size());
    const std::vector<Problem> problems = parse_problems(each.row.problem).value();
    for (const MeasureOptions& options : session.options()) {
      Row row = measure_problem(session.device(), problems[0], options);
      row.suite = std::string(each.suite);
      row.name = std::string(each.row.name);
      session.rows().push_back(std::move(row));
    }
  }
}

}  // namespace

int run_command(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  CommandLine line(
      "run SUITE|FILTER [options]",
      about(),
      with_common_options({{"--list", "", "", "Print the rows, and run nothing"},
                           {"--serve", "", "", "Serve samples to `compare` by pipes"}}));
  if (const std::optional<int> status = line.read(given)) {
    return *status;
  }
  if (line.names().size() != 1) {
    return refuse("run", "it takes one suite or filter; --help lists the suites", Exit::usage);
  }
  const Result<std::vector<SelectedRow>> selected = select_rows(line.names()[0]);
  if (!selected.has_value()) {
    return refuse("run", selected.error().text, Exit::usage);
  }
  if (line.has("--list")) {
    print_rows(selected.value());
    return static_cast<int>(Exit::fine);
  }
  if (line.has("--serve")) {
    return serve_samples(line, selected.value(), std::cin, std::cout);
  }
  const Result<std::unique_ptr<Session>> session =
      Session::open(line, fmt::format("hearth-bench run {}", fmt::join(given, " ")));
  if (!session.has_value()) {
    return refuse("run", session.error().text, exit_of(session.error()));
  }
  measure(*session.value(), selected.value());
  return session.value()->finish(line, false);
}

}  // namespace hearth::bench
