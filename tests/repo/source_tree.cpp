#include "source_tree.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace hearth::repo {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 7> kLibraryFolders{
    "runtime", "streams", "memory", "autotune", "backends", "modules", "parallel"};

bool is_identifier(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Build trees and data of a checkout lie at its root.
bool is_skipped_folder(const std::string& name, bool is_at_root) {
  const bool is_output = name == "build" || name.starts_with("build-") || name == "checkpoints";
  return is_output || (is_at_root && name == "data") || (name.starts_with('.') && name != ".ci");
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

// The end of the token that starts at `begin` if it is a comment or a literal; else `begin`.
std::size_t end_of_blank(std::string_view text, std::size_t begin) {
  const std::string_view rest = text.substr(begin);
  const auto after = [&](std::string_view mark, std::size_t from) {
    const std::size_t position = text.find(mark, from);
    return position == std::string_view::npos ? text.size() : position + mark.size();
  };
  if (rest.starts_with("//")) {
    return std::min(text.find('\n', begin), text.size());
  }
  if (rest.starts_with("/*")) {
    return after("*/", begin + 2);
  }
  if (rest.starts_with("R\"") && (begin == 0 || !is_identifier(text[begin - 1]))) {
    const std::size_t open = text.find('(', begin);
    const std::string delimiter(text.substr(begin + 2, open - begin - 2));
    return after(")" + delimiter + "\"", open);
  }
  const char quote = text[begin];
  const bool is_digit_separator = quote == '\'' && begin > 0 && is_identifier(text[begin - 1]);
  if (quote != '"' && (quote != '\'' || is_digit_separator)) {
    return begin;
  }
  std::size_t end = begin + 1;
  while (end < text.size() && text[end] != quote && text[end] != '\n') {
    end += text[end] == '\\' ? 2U : 1U;
  }
  return std::min(end + 1, text.size());
}

}  // namespace

bool SourceFile::is_in(std::string_view folder) const {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

std::string SourceFile::folder() const {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string{} : path.substr(0, slash);
}

std::string SourceFile::name() const {
  return path.substr(path.rfind('/') + 1);
}

std::string SourceFile::stem() const {
  const std::string file_name = name();
  return file_name.substr(0, file_name.rfind('.'));
}

bool is_library(const SourceFile& file) {
  return std::ranges::any_of(kLibraryFolders,
                             [&](std::string_view folder) { return file.is_in(folder); });
}

std::string strip_comments_and_literals(std::string_view text) {
  std::string code(text);
  std::size_t position = 0;
  while (position < text.size()) {
    const bool at_line_start = position == 0 || text[position - 1] == '\n';
    if (at_line_start && text.substr(position).starts_with("#include")) {
      position = std::min(text.find('\n', position), text.size());
      continue;
    }
    const std::size_t end = end_of_blank(text, position);
    for (std::size_t i = position; i < end; ++i) {
      if (code[i] != '\n') {
        code[i] = ' ';
      }
    }
    position = std::max(end, position + 1);
  }
  return code;
}

bool has_token(std::string_view code, std::string_view token) {
  for (std::size_t at = code.find(token); at != std::string_view::npos;
       at = code.find(token, at + 1)) {
    const std::size_t end = at + token.size();
    const bool open_before = is_identifier(token.front()) && at > 0 && is_identifier(code[at - 1]);
    const bool open_after =
        is_identifier(token.back()) && end < code.size() && is_identifier(code[end]);
    if (!open_before && !open_after) {
      return true;
    }
  }
  return false;
}

std::string find_tokens(const std::vector<const SourceFile*>& files,
                        std::initializer_list<std::string_view> tokens) {
  std::string found;
  for (const SourceFile* file : files) {
    for (std::size_t line = 0; line < file->code.size(); ++line) {
      for (const std::string_view token : tokens) {
        if (has_token(file->code[line], token)) {
          found += file->path + ":" + std::to_string(line + 1) + ": " + std::string(token) + "\n";
        }
      }
    }
  }
  return found;
}

std::string_view included_path(std::string_view line) {
  static constexpr std::string_view kInclude = "#include ";
  if (!line.starts_with(kInclude)) {
    return {};
  }
  line.remove_prefix(kInclude.size());
  return line.substr(0, line.find_last_of(">\""));
}

std::vector<SourceFile> load_source_tree() {
  const fs::path root = HEARTH_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator();
       ++entry) {
    if (entry->is_directory() &&
        is_skipped_folder(entry->path().filename().string(), entry.depth() == 0)) {
      entry.disable_recursion_pending();
    }
    // In a worktree of git, `.git` is a file.
    if (!entry->is_regular_file() || entry->is_symlink() || entry->path().filename() == ".git") {
      continue;
    }
    std::ifstream stream(entry->path(), std::ios::binary);
    std::ostringstream whole;
    whole << stream.rdbuf();
    const std::string text = std::move(whole).str();
    if (text.find('\0') != std::string::npos) {
      continue;
    }
    SourceFile file{.path = fs::relative(entry->path(), root).generic_string(),
                    .lines = split_lines(text),
                    .code = {}};
    if (file.is_cpp()) {
      file.code = split_lines(strip_comments_and_literals(text));
    }
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &SourceFile::path);
  return files;
}

}  // namespace hearth::repo
