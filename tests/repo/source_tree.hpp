// The checked-out sources as the repo tests see them: every text file once, C++ files also without
// comments and literals. Threads: any; a value.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::repo {

struct SourceFile {
  std::string path;                // relative to the root, with '/'
  std::vector<std::string> lines;  // unchanged
  std::vector<std::string> code;   // C++ only: comments and literals blanked, same line numbers

  [[nodiscard]] bool is_header() const { return path.ends_with(".hpp"); }
  [[nodiscard]] bool is_source() const { return path.ends_with(".cpp"); }
  [[nodiscard]] bool is_cpp() const { return is_header() || is_source(); }
  [[nodiscard]] bool is_in(std::string_view folder) const;
  [[nodiscard]] std::string folder() const;  // path up to the last '/', empty at the root
  [[nodiscard]] std::string name() const;    // last component
  [[nodiscard]] std::string stem() const;    // name without extension
};

/// Every text file below the root of the sources, in order of path; hidden folders other than .ci,
/// build trees and links are left out.
[[nodiscard]] std::vector<SourceFile> load_source_tree();

/// Whether the file belongs to the library, as opposed to tests, bench and examples.
[[nodiscard]] bool is_library(const SourceFile& file);

/// Blanks comments, character and string literals; keeps line breaks and the text of #include
/// lines.
[[nodiscard]] std::string strip_comments_and_literals(std::string_view text);

/// Whether `token` occurs in `code` as a whole: no identifier character directly before or after
/// it.
[[nodiscard]] bool has_token(std::string_view code, std::string_view token);

/// One line "path:line: token" for each occurrence of a token in the code of `files`.
[[nodiscard]] std::string find_tokens(const std::vector<const SourceFile*>& files,
                                      std::initializer_list<std::string_view> tokens);

/// The quoted or bracketed path of an #include line, with its opening character; empty for any
/// other line.
[[nodiscard]] std::string_view included_path(std::string_view line);

}  // namespace hearth::repo
