#include "header_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <sstream>
#include <utility>

namespace hearth::docs {
namespace {

std::vector<std::string> lines_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    lines.push_back(line);
  }
  return lines;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' ');
  const std::size_t end = text.find_last_not_of(' ');
  return begin == std::string_view::npos ? "" : std::string(text.substr(begin, end + 1 - begin));
}

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// The text of a comment `/// ...`, or nothing.
std::optional<std::string> comment_in(const std::string& line) {
  const std::string text = trimmed(line);
  if (!text.starts_with("///") || text.starts_with("///<")) {
    return std::nullopt;
  }
  return trimmed(std::string_view(text).substr(3));
}

std::string first_sentence(const std::string& doc) {
  const std::string text = doc.substr(0, doc.find("\n\n"));
  const std::size_t end = text.find(". ");
  return trimmed(text.substr(0, end == std::string::npos ? text.size() : end + 1));
}

// Splits at the commas that stand outside of brackets.
std::vector<std::string> split_outside(std::string_view text) {
  std::vector<std::string> parts;
  std::string part;
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' || c == '<' || c == '{' ? 1 : 0;
    depth -= c == ')' || c == '>' || c == '}' ? 1 : 0;
    if (c == ',' && depth == 0) {
      parts.push_back(std::exchange(part, ""));
    } else {
      part += c;
    }
  }
  parts.push_back(part);
  return parts;
}

std::vector<std::string> parameter_names(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string& part : split_outside(text)) {
    const std::string head = trimmed(part.substr(0, part.find('=')));
    std::size_t begin = head.size();
    while (begin > 0 && is_name(head[begin - 1])) {
      --begin;
    }
    const std::string name = head.substr(begin);
    if (!name.empty() && name != "loc" && name != "where") {
      names.push_back(name);
    }
  }
  return names;
}

// "double", "Shape" and so on in front of a field's name; nothing for what is no field.
std::optional<DeclaredField> field_in(const std::string& line) {
  const std::size_t mark = line.find("///<");
  const std::string code = trimmed(line.substr(0, mark));
  if (!code.ends_with(';') || code.find('(') != std::string::npos || code.starts_with("using ") ||
      code.starts_with("friend ")) {
    return std::nullopt;
  }
  const std::size_t end = code.find_first_of("={;");
  const std::string head = trimmed(code.substr(0, end));
  std::size_t begin = head.size();
  while (begin > 0 && is_name(head[begin - 1])) {
    --begin;
  }
  if (begin == 0 || begin == head.size()) {
    return std::nullopt;
  }
  std::string value = trimmed(code.substr(end, code.size() - 1 - end));
  if (value.starts_with('=')) {
    value = trimmed(value.substr(1));
  }
  return DeclaredField{.name = head.substr(begin),
                       .value = value,
                       .doc = mark == std::string::npos ? "" : trimmed(line.substr(mark + 4))};
}

// The sections of a comment, in front of a colon.
bool begins_section(std::string_view comment) {
  static constexpr std::array<std::string_view, 9> kSections{
      "Dtypes", "Units", "Errors", "Threads", "Lifetime", "Cost", "Paper", "Papers", "Note"};
  return comment.empty() || std::ranges::any_of(kSections, [&](std::string_view section) {
           return comment.starts_with(section) && comment[section.size()] == ':';
         });
}

void read_fields(DeclaredStruct& declared) {
  const auto begin = std::ranges::find(declared.lines, "  struct Config {");
  const bool has_config = begin != declared.lines.end();
  const auto end =
      has_config ? std::find(begin, declared.lines.end(), "  };") : declared.lines.end();
  for (auto line = has_config ? begin + 1 : declared.lines.begin(); line != end; ++line) {
    static constexpr std::string_view kUsing = "  using Config = ";
    if (line->starts_with(kUsing)) {
      declared.config = line->substr(kUsing.size(), line->find(';') - kUsing.size());
    }
    const bool is_own_level = has_config || (line->starts_with("  ") && (*line)[2] != ' ');
    if (auto field = field_in(*line); field && is_own_level) {
      declared.fields.push_back(*std::move(field));
    }
  }
}

}  // namespace

std::vector<DeclaredFunction> functions_in(std::string_view header) {
  const std::vector<std::string> lines = lines_of(header);
  std::vector<DeclaredFunction> functions;
  std::string section;
  std::string doc;
  bool is_detail = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (line == "namespace detail {" || line == "}  // namespace detail") {
      is_detail = line.starts_with("namespace");
    }
    static constexpr std::string_view kSection = "// ---- ";
    if (line.starts_with(kSection)) {
      section = line.substr(kSection.size(), line.rfind(" ----") - kSection.size());
      section = section.substr(0, section.find_first_of(":;"));
    }
    if (const auto comment = comment_in(line)) {
      doc += doc.empty() ? *comment : (comment->empty() ? "\n\n" : " " + *comment);
      continue;
    }
    static constexpr std::string_view kStart = "[[nodiscard]] ";
    std::string text = line.starts_with(kStart) ? line.substr(kStart.size()) : "";
    if (text.starts_with("inline ")) {
      text = text.substr(7);
    }
    const bool gives_tensors = text.starts_with("Tensor ") || text.starts_with("TopK ") ||
                               text.starts_with("std::vector<Tensor> ");
    const std::size_t open = text.find('(');
    if (!gives_tensors || is_detail || open == std::string::npos ||
        text.starts_with("Tensor operator")) {
      doc = line.starts_with("template") || line.starts_with(" ") ? doc : "";
      continue;
    }
    static constexpr std::string_view kRefused = ") = delete;";
    while (text.find(");") == std::string::npos && text.find(") {") == std::string::npos &&
           text.find(kRefused) == std::string::npos && i + 1 < lines.size()) {
      text += " " + trimmed(lines[++i]);
    }
    if (text.ends_with(kRefused)) {
      doc = "";
      continue;
    }
    const std::size_t mark = text.find("///<");
    if (mark != std::string::npos) {
      doc = trimmed(text.substr(mark + 4));
    }
    const std::string before = trimmed(text.substr(0, open));
    const std::size_t close = text.rfind(')', mark);
    functions.push_back({.name = before.substr(before.rfind(' ') + 1),
                         .parameters = parameter_names(text.substr(open + 1, close - open - 1)),
                         .section = section,
                         .doc = first_sentence(std::exchange(doc, ""))});
  }
  return functions;
}

std::vector<DeclaredStruct> structs_in(std::string_view header) {
  std::vector<DeclaredStruct> structs;
  std::string doc;
  bool is_open = false;
  for (const std::string& line : lines_of(header)) {
    if (is_open) {
      is_open = line != "};";
      structs.back().lines.push_back(line);
    } else if (const auto comment = comment_in(line)) {
      doc += *comment + "\n";
    } else {
      static constexpr std::string_view kStruct = "struct ";
      if (line.starts_with(kStruct) && line.ends_with(" {")) {
        structs.push_back({.name = line.substr(kStruct.size(), line.size() - kStruct.size() - 2),
                           .doc = doc,
                           .lines = {},
                           .fields = {},
                           .config = {}});
        is_open = true;
      }
      doc.clear();
    }
  }
  std::ranges::for_each(structs, read_fields);
  return structs;
}

std::string shapes_in(const std::vector<std::string>& lines) {
  static constexpr std::string_view kShapes = "Shapes: ";
  std::string text;
  for (const std::string& line : lines) {
    const auto comment = comment_in(line);
    if (text.empty()) {
      text = comment && comment->starts_with(kShapes) ? comment->substr(kShapes.size()) : "";
    } else if (comment && !begins_section(*comment)) {
      text += " " + *comment;
    } else {
      break;
    }
  }
  return text;
}

std::string shapes_in(std::string_view doc) {
  std::vector<std::string> lines = lines_of(doc);
  for (std::string& line : lines) {
    line = "/// " + line;
  }
  return shapes_in(lines);
}

std::vector<std::string> modules_in(std::string_view header) {
  static constexpr std::string_view kModule = "HEARTH_MODULE(";
  std::vector<std::string> names;
  for (const std::string& line : lines_of(header)) {
    const std::string text = trimmed(line);
    if (text.starts_with(kModule)) {
      names.push_back(text.substr(kModule.size(), text.find_first_of(",)") - kModule.size()));
    }
  }
  return names;
}

}  // namespace hearth::docs
