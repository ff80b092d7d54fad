// A page of the documentation as its tests see it: the fenced blocks of a Markdown file, or \code
// and \verbatim of a Doxygen page, in order. A value. Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::docs {

/// A fenced block, or a comment `<!-- test ... -->`, which the reader does not see.
struct Block {
  std::string language = {};            ///< "cpp", "sh", "text"; of a hidden block "cpp".
  std::vector<std::string> words = {};  ///< The words after the language: "compiles".
  std::vector<std::string> lines = {};
  int line = 0;  ///< The page's line number of the first line, from 1.
  bool hidden = false;

  [[nodiscard]] bool has_word(std::string_view word) const;
  /// The lines with their line ends.
  [[nodiscard]] std::string text() const;
};

struct Page {
  std::string name;  ///< "docs/limits.md"
  std::vector<Block> blocks;
};

/// The ```text block directly after that block, which is its output; nullptr if there is none.
[[nodiscard]] const Block* output_of(const Page& page, std::size_t index);

/// Parses a page.
///
/// Errors: std::runtime_error naming page and line, for a block that does not end.
[[nodiscard]] Page parse_page(std::string name, std::string_view text);

}  // namespace hearth::docs
