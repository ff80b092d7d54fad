// hearth-bench roofline REPORT.json --svg FILE: draws the rows of a report under the roofs.
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/file.hpp>

#include "bench/commands.hpp"
#include "report.hpp"
#include "roofline.hpp"

namespace hearth::bench {
namespace {

/// The rows of all reports under the roofs of the first one.
Result<Report> joined(const std::vector<std::string>& files) {
  Report all;
  for (const std::string& file : files) {
    HEARTH_TRY(Report report, read_report(file));
    if (file == files.front()) {
      all = std::move(report);
    } else {
      all.rows.insert(all.rows.end(), report.rows.begin(), report.rows.end());
    }
  }
  if (all.roofs.flops_per_second <= 0 || all.roofs.bytes_per_second <= 0) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = files.front() + " has no roofs: its machine was too busy, or is a GPU"};
  }
  return all;
}

}  // namespace

int roofline_command(int argc, char** argv) {
  CommandLine line(
      "roofline REPORT.json... --svg FILE",
      "Draws the rows of reports (`run ... --json FILE`) under the roofs that the first "
      "one measured.",
      {{"--svg", "FILE", "", "The picture (needed)"}});
  if (const std::optional<int> status =
          line.read(std::vector<std::string>(argv + 1, argv + argc))) {
    return *status;
  }
  if (line.names().empty() || !line.has("--svg")) {
    return refuse("roofline", "it takes reports and --svg FILE", Exit::usage);
  }
  const Result<Report> report = joined(line.names());
  if (!report.has_value()) {
    return refuse("roofline", report.error().text, exit_of(report.error()));
  }
  const std::string svg = draw_roofline(report.value());
  const Status written = write_file_atomically(line.text("--svg"), std::as_bytes(std::span(svg)));
  if (!written.has_value()) {
    return refuse("roofline", written.error().text, Exit::wrong);
  }
  fmt::print("{} rows in {}\n", report.value().rows.size(), line.text("--svg"));
  return static_cast<int>(Exit::fine);
}

}  // namespace hearth::bench
