// hearth-bench page FOLDER [--check]: writes the page of results, or compares it.
#include <filesystem>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/file.hpp>

#include "bench/commands.hpp"
#include "command_line.hpp"
#include "page.hpp"

namespace hearth::bench {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// Prints the lines that differ: those of the page with -, those of the files with +.
void print_difference(const std::string& page, const std::string& files) {
  const std::vector<std::string> before = lines_of(page);
  const std::vector<std::string> after = lines_of(files);
  for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
    const bool has_before = i < before.size();
    const bool has_after = i < after.size();
    if (has_before && has_after && before[i] == after[i]) {
      continue;
    }
    if (has_before) {
      fmt::print("-{}\n", before[i]);
    }
    if (has_after) {
      fmt::print("+{}\n", after[i]);
    }
  }
}

}  // namespace

int page_command(int argc, char** argv) {
  CommandLine line(
      "page FOLDER [--check]",
      "Writes FOLDER/../RESULTS.md from the files of figures (*.json) in FOLDER, which is "
      "bench/results.",
      {{"--check", "", "", "Write nothing; print how the page differs, and exit with 1"}});
  if (const std::optional<int> status =
          line.read(std::vector<std::string>(argv + 1, argv + argc))) {
    return *status;
  }
  if (line.names().size() != 1) {
    return refuse("page", "it takes one folder, bench/results", Exit::usage);
  }
  const std::filesystem::path folder =
      std::filesystem::absolute(line.names()[0]).lexically_normal();
  const Result<std::string> text = results_page(folder);
  if (!text.has_value()) {
    return refuse("page", text.error().text, Exit::wrong);
  }
  const std::filesystem::path page =
      (folder.has_filename() ? folder : folder.parent_path()).parent_path() / "RESULTS.md";
  if (!line.has("--check")) {
    const Status written = write_file_atomically(page, std::as_bytes(std::span(text.value())));
    return written.has_value() ? static_cast<int>(Exit::fine)
                               : refuse("page", written.error().text, Exit::wrong);
  }
  const Result<std::vector<std::byte>> bytes = read_file(page);
  if (!bytes.has_value()) {
    return refuse("page", bytes.error().text, Exit::wrong);
  }
  const std::string written(reinterpret_cast<const char*>(bytes.value().data()),
                            bytes.value().size());
  if (written == text.value()) {
    return static_cast<int>(Exit::fine);
  }
  print_difference(written, text.value());
  return refuse("page", "the page differs from its files; write it anew", Exit::wrong);
}

}  // namespace hearth::bench
