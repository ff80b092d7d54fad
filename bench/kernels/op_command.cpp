// hearth-bench op KIND --m ... --candidates all: one problem, and why its kernel is chosen.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/commands.hpp"
#include "nearest_name.hpp"
#include "problem.hpp"
#include "session.hpp"

namespace hearth::bench {
namespace {

std::vector<CommandOption> options_of(const std::vector<ProblemWord>& words) {
  std::vector<CommandOption> options;
  for (const ProblemWord& word : words) {
    options.push_back({fmt::format("--{}", word.name),
                       "X",
                       word.initial == " " ? "" : std::string(word.initial),
                       fmt::format("{}{}", word.meaning, word.initial.empty() ? " (needed)" : "")});
  }
  options.push_back({"--candidates", "WHICH", "rule", "rule, or all that the device lists"});
  return with_common_options(std::move(options));
}

std::string problem_text(const CommandLine& line, const std::vector<ProblemWord>& words) {
  std::string text = line.names()[0];
  for (const auto& [option, value] : line.order()) {
    for (const ProblemWord& word : words) {
      if (option == fmt::format("--{}", word.name)) {
        text += fmt::format(" {}={}", word.name, value);
      }
    }
  }
  return text;
}

}  // namespace

int op_command(int argc, char** argv) {
  const std::vector<std::string> given(argv + 1, argv + argc);
  std::vector<ProblemWord> words;
  if (!given.empty() && !given[0].starts_with("-")) {
    const Result<std::vector<ProblemWord>> found = problem_words(given[0]);
    if (!found.has_value()) {
      return refuse("op", found.error().text, Exit::usage);
    }
    words = found.value();
  }
  const std::string does = fmt::format(
      "Times one op. `hearth-bench op KIND --help` lists the options of a kind.\n"
      "A list makes one row for each: --m 1,8,64 or --m 1..64*2.\nKinds: {}",
      fmt::join(problem_kinds(), ", "));
  CommandLine line("op KIND [--candidates all] [options]", does, options_of(words));
  if (const std::optional<int> status = line.read(given)) {
    return *status;
  }
  if (line.names().size() != 1) {
    return refuse("op", "it takes one kind; --help lists them", Exit::usage);
  }
  const std::string& which = line.text("--candidates");
  if (which != "all" && which != "rule") {
    return refuse(
        "op",
        fmt::format(
            "--candidates {}{}; it is rule or all", which, did_you_mean(which, {"all", "rule"})),
        Exit::usage);
  }
  const Result<std::vector<Problem>> problems = parse_problems(problem_text(line, words));
  if (!problems.has_value()) {
    return refuse("op", problems.error().text, Exit::usage);
  }
  const Result<std::unique_ptr<Session>> opened =
      Session::open(line, fmt::format("hearth-bench op {}", fmt::join(given, " ")));
  if (!opened.has_value()) {
    return refuse("op", opened.error().text, exit_of(opened.error()));
  }
  Session& session = *opened.value();
  for (const Problem& problem : problems.value()) {
    for (const MeasureOptions& options : session.options()) {
      std::vector<Row> rows =
          which == "all" ? measure_candidates(session.device(), problem, options)
                         : std::vector{measure_problem(session.device(), problem, options)};
      for (Row& row : rows) {
        session.rows().push_back(std::move(row));
      }
    }
  }
  return session.finish(line, false);
}

}  // namespace hearth::bench
