#include "session.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <thread>

#include <fmt/format.h>
#include <unistd.h>

#include <hearth/runtime/base/file.hpp>

namespace hearth::bench {
namespace {

// Without roofs a row has a time and a verdict, so they are not worth a long wait.
constexpr std::chrono::milliseconds kRoofPatience{2000};

}  // namespace

std::vector<CommandOption> with_output_options(std::vector<CommandOption> own) {
  own.push_back({"--least-gain", "PART", "0.03", "Least gain of a FASTER, and loss of a SLOWER"});
  own.push_back(
      {"--patience", "SECONDS", "10", "How long to wait for a quiet machine, for each row"});
  return with_report_options(std::move(own));
}

std::vector<CommandOption> with_report_options(std::vector<CommandOption> own) {
  own.push_back({"--json", "FILE", "", "Write the report with all samples; - is stdout"});
  own.push_back({"--csv", "FILE", "", "Write the table with commas"});
  own.push_back({"--md", "FILE", "", "Write the table in Markdown"});
  return own;
}

std::vector<CommandOption> with_common_options(std::vector<CommandOption> own) {
  own.push_back({"--device", "NAME", "cpu:0", "Device: cpu:0, vulkan:0, reference:0, ..."});
  own.push_back({"--cores", "N", "1", "Cores of a cpu device; one core is measured best"});
  own.push_back(
      {"--operands", "WHERE", "rotated", "rotated (from memory), hot (from a cache) or both"});
  return with_output_options(std::move(own));
}

Progress::Progress() : is_terminal_(::isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (is_terminal_) {
    fmt::print(stderr, "\r\x1b[K");
  }
}

void Progress::show(const std::string& name, std::size_t place, std::size_t count) {
  constexpr std::size_t kWidth = 24;
  if (is_terminal_) {
    const std::size_t filled = count == 0 ? 0 : kWidth * place / count;
    fmt::print(stderr,
               "\r\x1b[K[{:#<{}}{:.<{}}] {}/{} {}",
               "",
               filled,
               "",
               kWidth - filled,
               place + 1,
               count,
               name.substr(0, 48));
    std::fflush(stderr);
  }
}

Result<ContestOptions> contest_options(const CommandLine& line) {
  HEARTH_TRY(const double gain, line.number("--least-gain"));
  HEARTH_TRY(const double patience, line.number("--patience"));
  if (gain <= 0 || gain >= 1 || patience < 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = "--least-gain is between 0 and 1, --patience 0 or more"};
  }
  ContestOptions options;
  options.judge.least_gain = gain;
  options.patience = std::chrono::milliseconds(static_cast<std::int64_t>(1000 * patience));
  options.sleep = [](std::chrono::milliseconds rest) { std::this_thread::sleep_for(rest); };
  return options;
}

Result<std::unique_ptr<Session>> Session::open(const CommandLine& line,
                                               const std::string& command) {
  std::unique_ptr<Session> session(new Session);
  HEARTH_TRY(MeasureOptions options, [&]() -> Result<MeasureOptions> {
    HEARTH_TRY(ContestOptions contest, contest_options(line));
    return MeasureOptions{.contest = std::move(contest)};
  }());
  HEARTH_TRY(const double cores, line.number("--cores"));
  HEARTH_TRY(session->device_, BenchDevice::open(line.text("--device"), static_cast<int>(cores)));
  session->report_.command = command;
  session->report_.device = session->device_->backend().info().description;
  session->report_.facts = machine_facts();
  session->report_.warnings = machine_warnings();
  session->progress_.show("roofs of the device", 0, 1);
  if (session->device_->backend().info().computes) {
    ContestOptions roofs = options.contest;
    roofs.patience = std::min(roofs.patience, kRoofPatience);
    HEARTH_TRY(options.roofs, measure_roofs(*session->device_, static_cast<int>(cores), roofs));
  }
  session->report_.roofs = options.roofs;
  options.progress = [progress = &session->progress_](
                         const std::string& name, std::size_t place, std::size_t count) {
    progress->show(name, place, count);
  };
  const std::string& where = line.text("--operands");
  if (where != "rotated" && where != "hot" && where != "both") {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = fmt::format("--operands {}: it is rotated, hot or both", where)};
  }
  for (const Heat heat : {Heat::rotated, Heat::hot}) {
    if (where == "both" || where == name(heat)) {
      session->options_.push_back(options);
      session->options_.back().heat = heat;
    }
  }
  return session;
}

Status write_report(const CommandLine& line, const Report& report) {
  bool is_printed = false;
  const auto write = [&](std::string_view option, const std::string& text) -> Status {
    const std::string& path = line.text(option);
    if (path.empty()) {
      return {};
    }
    if (path == "-") {
      is_printed = true;
      fmt::print("{}", text);
      return {};
    }
    return write_file_atomically(path, std::as_bytes(std::span(text)));
  };
  HEARTH_TRY_STATUS(write("--json", to_json(report)));
  HEARTH_TRY_STATUS(write("--csv", to_text(report, TableForm::csv)));
  HEARTH_TRY_STATUS(write("--md", to_text(report, TableForm::markdown)));
  if (!is_printed) {
    fmt::print("{}", to_text(report, TableForm::text));
  }
  return {};
}

int finish_report(const CommandLine& line,
                  Report report,
                  const LoadWatch& load,
                  bool counts_slower) {
  for (auto& fact : load.facts()) {
    report.facts.push_back(std::move(fact));
  }
  const Status written = write_report(line, report);
  if (!written.has_value()) {
    return refuse(report.command, written.error().text, Exit::wrong);
  }
  return static_cast<int>(exit_of(report, counts_slower));
}

int Session::finish(const CommandLine& line, bool counts_slower) {
  return finish_report(line, report_, load_, counts_slower);
}

}  // namespace hearth::bench
