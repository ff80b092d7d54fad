// The command line of a subcommand whose options depend on its other words, as those of `op` depend
// on the kind. Unknown options get the nearest name.
// Values. Threads: any.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth::bench {

/// Exit statuses of the commands that measure.
enum class Exit : int {
  fine = 0,     ///< Equal or faster.
  wrong = 1,    ///< A wrong result, or a failure.
  usage = 2,    ///< The call itself.
  slower = 3,   ///< Slower, with its interval.
  unclear = 4,  ///< No verdict.
};
/// Text of --help about them.
[[nodiscard]] std::string_view exit_help() noexcept;

struct CommandOption {
  std::string name;     ///< "--m"
  std::string value;    ///< "N"; empty for a flag.
  std::string initial;  ///< Value of an option that is not given.
  std::string help;
};

class CommandLine final {
 public:
  CommandLine(std::string usage, std::string does, std::vector<CommandOption> options)
      : usage_(std::move(usage)), does_(std::move(does)), options_(std::move(options)) {}

  /// Reads the words. Nothing: go on. Else the exit status: help was printed to stdout, or a
  /// mistake to stderr.
  [[nodiscard]] std::optional<int> read(const std::vector<std::string>& words);

  [[nodiscard]] const std::vector<std::string>& names() const noexcept { return names_; }
  [[nodiscard]] bool has(std::string_view option) const {
    return given_.find(option) != given_.end();
  }
  [[nodiscard]] const std::string& text(std::string_view option) const;
  /// Every value of an option that may be given several times.
  [[nodiscard]] std::vector<std::string> texts(std::string_view option) const;
  /// Errors: invalid_argument.
  [[nodiscard]] Result<double> number(std::string_view option) const;
  /// Options that were given, in their order, with their values.
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& order() const noexcept {
    return order_;
  }

 private:
  [[nodiscard]] std::string help() const;

  std::string usage_;
  std::string does_;
  std::vector<CommandOption> options_;
  std::vector<std::string> names_ = {};  ///< Words that are no options.
  std::multimap<std::string, std::string, std::less<>> given_ = {};
  std::vector<std::pair<std::string, std::string>> order_ = {};
};

/// Returns usage for a mistake in the call, else wrong.
[[nodiscard]] Exit exit_of(const Error& error) noexcept;
/// Prints the text to stderr and returns the status.
int refuse(std::string_view command, std::string_view text, Exit status);

}  // namespace hearth::bench
