// The page of results: tables in Markdown from a folder of files of figures.
// A file holds one run on one machine: "section", "title", "rows", and facts of the run. A row has
// a "name", the columns that were measured, and their spreads. A figure is a number, or [low, high]
// where only a range is known. A bar is "COLUMN <= LIMIT" or ">=": "ratio <= 0.96".
// Pure but for reading the files. Threads: any.
#pragma once

#include <filesystem>
#include <string>

#include <hearth/runtime/base/result.hpp>

namespace hearth::bench {

/// Returns the page of all *.json files of the folder, in the order of their names. Numbers keep
/// the digits that they have in their file.
///
/// Errors: io_error; bad_format, naming the file and what is missing or unknown in it.
[[nodiscard]] Result<std::string> results_page(const std::filesystem::path& folder);

/// Wraps a text into lines of at most 100 columns; code between backticks stays on one line.
[[nodiscard]] std::string wrapped_text(const std::string& text);
/// Returns a number with commas between thousands and a minus sign: "−40,700", "3.9e-7".
[[nodiscard]] std::string readable_number(std::string token);

}  // namespace hearth::bench
