// One call of a command that measures: its common options, its device, its report.
// Threads: the command's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "bench_device.hpp"
#include "command_line.hpp"
#include "measuring.hpp"
#include "report.hpp"

namespace hearth::bench {

/// Returns the options that all measuring commands have, after `own`.
[[nodiscard]] std::vector<CommandOption> with_common_options(std::vector<CommandOption> own);
/// Returns the part of them for output and for the judge.
[[nodiscard]] std::vector<CommandOption> with_output_options(std::vector<CommandOption> own);
/// Returns the part of them for the report's files.
[[nodiscard]] std::vector<CommandOption> with_report_options(std::vector<CommandOption> own);

/// A line on stderr that shows how far the work is; nothing where stderr is no terminal.
class Progress final {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  ///< Removes the line.
  void show(const std::string& name, std::size_t place, std::size_t count);

 private:
  bool is_terminal_;
};

/// Reads --least-gain and --patience.
///
/// Errors: invalid_argument.
[[nodiscard]] Result<ContestOptions> contest_options(const CommandLine& line);

class Session final {
 public:
  /// Opens the device and measures its roofs.
  ///
  /// Errors: invalid_argument for an option; those of BenchDevice::open() and measure_roofs().
  [[nodiscard]] static Result<std::unique_ptr<Session>> open(const CommandLine& line,
                                                             const std::string& command);

  [[nodiscard]] BenchDevice& device() noexcept { return *device_; }
  /// Options for each of the wanted heats: one, or two for --operands both.
  [[nodiscard]] const std::vector<MeasureOptions>& options() const noexcept { return options_; }
  [[nodiscard]] Progress& progress() noexcept { return progress_; }
  [[nodiscard]] std::vector<Row>& rows() noexcept { return report_.rows; }
  /// Prints the report, writes its files and returns the exit status.
  [[nodiscard]] int finish(const CommandLine& line, bool counts_slower);

 private:
  Session() = default;

  std::unique_ptr<BenchDevice> device_;
  std::vector<MeasureOptions> options_;
  Report report_;
  LoadWatch load_;
  Progress progress_;
};

/// Prints the report in the form that the options name, and writes its files.
///
/// Errors: io_error.
[[nodiscard]] Status write_report(const CommandLine& line, const Report& report);
/// Adds the load's facts to a report, writes it and returns the exit status.
[[nodiscard]] int finish_report(const CommandLine& line,
                                Report report,
                                const LoadWatch& load,
                                bool counts_slower);

}  // namespace hearth::bench
