#include "command_line.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "nearest_name.hpp"
#include "problem.hpp"

namespace hearth::bench {

std::string_view exit_help() noexcept {
  return "Exit status: 0 equal or faster, 1 a wrong result or a failure, 2 a mistake in the call,\n"
         "             3 slower with its whole interval, 4 unclear.\n";
}

Exit exit_of(const Error& error) noexcept {
  return error.code == ErrorCode::invalid_argument || error.code == ErrorCode::not_found
             ? Exit::usage
             : Exit::wrong;
}

int refuse(std::string_view command, std::string_view text, Exit status) {
  fmt::print(stderr, "hearth-bench {}: {}\n", command, text);
  return static_cast<int>(status);
}

std::string CommandLine::help() const {
  std::string text = fmt::format("{}\nUsage: hearth-bench {}\n\nOptions:\n", does_, usage_);
  for (const CommandOption& each : options_) {
    const std::string left = each.value.empty() ? each.name : each.name + " " + each.value;
    text += fmt::format("  {:<22} {}{}\n",
                        left,
                        each.help,
                        each.initial.empty() ? "" : fmt::format(" [{}]", each.initial));
  }
  return text + "\n" + std::string(exit_help());
}

std::optional<int> CommandLine::read(const std::vector<std::string>& words) {
  const std::string_view command = std::string_view(usage_).substr(0, usage_.find(' '));
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string word = words[i];
    if (word == "--help" || word == "-h") {
      fmt::print("{}", help());
      return static_cast<int>(Exit::fine);
    }
    if (!word.starts_with("--")) {
      names_.push_back(std::move(word));
      continue;
    }
    std::optional<std::string> value;
    if (const std::size_t sign = word.find('='); sign != std::string::npos) {
      value = word.substr(sign + 1);
      word.resize(sign);
    }
    const auto option = std::ranges::find(options_, word, &CommandOption::name);
    if (option == options_.end()) {
      return refuse(command,
                    fmt::format("no option '{}'{}; --help lists what there is",
                                word,
                                did_you_mean(word, names_of(options_, &CommandOption::name))),
                    Exit::usage);
    }
    if (option->value.empty() && value) {
      return refuse(command, fmt::format("{} takes no value", word), Exit::usage);
    }
    if (!option->value.empty() && !value) {
      if (i + 1 == words.size()) {
        return refuse(command, fmt::format("{} needs a value", word), Exit::usage);
      }
      value = words[++i];
    }
    given_.emplace(word, value.value_or("1"));
    order_.emplace_back(word, value.value_or("1"));
  }
  return {};
}

const std::string& CommandLine::text(std::string_view option) const {
  const auto found = given_.find(option);
  return found != given_.end() ? found->second
                               : std::ranges::find(options_, option, &CommandOption::name)->initial;
}

std::vector<std::string> CommandLine::texts(std::string_view option) const {
  std::vector<std::string> all;
  for (const auto& [name, value] : order_) {
    if (name == option) {
      all.push_back(value);
    }
  }
  return all;
}

Result<double> CommandLine::number(std::string_view option) const {
  return parse_number(option, text(option));
}

}  // namespace hearth::bench
