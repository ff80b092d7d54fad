// Samples of another program: a second build of hearth-bench that serves them by pipes, so that one
// contest times two builds in turns.
// Protocol, in lines: the server prints "row LABEL" for each row, then "ready". A request is
// "PLACE RUNS", the row's place and a number of runs. The answer is "WALL CPU RUNS SWITCHES
// PRESSURE STEAL SOURCE ROTATED" in nanoseconds, or "error TEXT". Threads: one at a time.
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <hearth/runtime/base/result.hpp>

#include "command_line.hpp"
#include "contest.hpp"
#include "suites.hpp"

namespace hearth::bench {

/// Serves samples of the rows until `in` ends. Returns the exit status.
int serve_samples(const CommandLine& line,
                  const std::vector<SelectedRow>& rows,
                  std::istream& in,
                  std::ostream& out);

/// A program that serves samples. Ends it in the destructor.
class RemoteProgram final {
 public:
  /// Starts PROGRAM run FILTER --serve ...
  ///
  /// Errors: io_error if it does not start or does not serve.
  [[nodiscard]] static Result<std::unique_ptr<RemoteProgram>> start(
      const std::string& program, const std::vector<std::string>& arguments);
  RemoteProgram(const RemoteProgram&) = delete;
  RemoteProgram& operator=(const RemoteProgram&) = delete;
  ~RemoteProgram();

  [[nodiscard]] const std::vector<std::string>& labels() const noexcept { return labels_; }
  /// Returns the side of a row. Valid as long as this object.
  [[nodiscard]] Side side(std::size_t place);

 private:
  RemoteProgram() = default;
  [[nodiscard]] Result<std::string> read_line();
  [[nodiscard]] Result<detail::Sample> sample(std::size_t place, std::int32_t run_count);

  std::string program_;
  int process_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string buffer_;
  std::vector<std::string> labels_;
};

/// Writes and reads the answer of a request.
[[nodiscard]] std::string sample_line(const detail::Sample& sample);
/// Errors: bad_format; kernel_failed for "error TEXT".
[[nodiscard]] Result<detail::Sample> parse_sample_line(const std::string& line);

}  // namespace hearth::bench
