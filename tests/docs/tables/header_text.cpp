#include "header_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <span>
#include <sstream>
#include <utility>

namespace hearth::docs {
namespace {

std::vector<std::string> split_lines(std::string_view text) {
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

// The text of a comment `/// ...`; empty if the line has none.
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

// Splits at the commas outside of brackets.
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

// Parameter names with their defaults.
std::vector<std::string> parameters_in(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string& part : split_outside(text)) {
    const std::string head = trimmed(part.substr(0, part.find('=')));
    std::size_t begin = head.size();
    while (begin > 0 && is_name(head[begin - 1])) {
      --begin;
    }
    const std::string name = head.substr(begin);
    if (!name.empty() && name != "loc" && name != "where") {
      const std::size_t value = part.find('=');
      names.push_back(name + (value == std::string::npos ? "" : " " + trimmed(part.substr(value))));
    }
  }
  return names;
}

// The end of a declaration's declarator: the begin of its default, its initialiser or its
// semicolon.
std::size_t end_of_declarator(std::string_view code) {
  int depth = 0;
  for (std::size_t at = 0; at < code.size(); ++at) {
    depth += code[at] == '<' || code[at] == '(' ? 1 : 0;
    depth -= code[at] == '>' || code[at] == ')' ? 1 : 0;
    if (depth == 0 && (code[at] == '=' || code[at] == '{' || code[at] == ';')) {
      return at;
    }
  }
  return code.size();
}

bool declares_no_field(std::string_view code) {
  static constexpr std::array<std::string_view, 12> kStarts{"using ",
                                                            "friend ",
                                                            "static ",
                                                            "template ",
                                                            "struct ",
                                                            "class ",
                                                            "enum ",
                                                            "explicit ",
                                                            "HEARTH_",
                                                            "[[nodiscard]]",
                                                            "[[deprecated",
                                                            "public:"};
  return std::ranges::any_of(kStarts,
                             [&](std::string_view start) { return code.starts_with(start); });
}

// The field that this code declares; empty for a function and other declarations.
std::optional<DeclaredField> field_in(const std::string& code) {
  if (!code.ends_with(';') || declares_no_field(code)) {
    return std::nullopt;
  }
  const std::size_t end = end_of_declarator(code);
  const std::string head = trimmed(code.substr(0, end));
  std::size_t begin = head.size();
  while (begin > 0 && is_name(head[begin - 1])) {
    --begin;
  }
  if (begin == 0 || begin == head.size() || code.substr(end).starts_with("= default") ||
      code.substr(end).starts_with("= delete")) {
    return std::nullopt;
  }
  std::string value = trimmed(code.substr(end, code.size() - 1 - end));
  if (value.starts_with('=')) {
    value = trimmed(value.substr(1));
  }
  return DeclaredField{.name = head.substr(begin),
                       .type = trimmed(head.substr(0, begin)),
                       .value = value,
                       .doc = {}};
}

std::size_t indent_of(const std::string& line) {
  const std::size_t at = line.find_first_not_of(' ');
  return at == std::string::npos ? line.size() : at;
}

void append(std::string& text, std::string_view more) {
  text += text.empty() || more.empty() ? "" : " ";
  text += more;
}

// The fields that these lines declare at this indent, each with the comment above it and after it.
// A declaration, or a comment after one, may take several lines.
std::vector<DeclaredField> fields_in(std::span<const std::string> lines, std::size_t indent) {
  static constexpr std::string_view kBehind = "///<";
  std::vector<DeclaredField> fields;
  std::string doc;
  std::string code;
  bool is_behind_field = false;
  for (const std::string& line : lines) {
    const std::string text = trimmed(line);
    if (code.empty() && text.starts_with(kBehind)) {
      if (is_behind_field) {
        append(fields.back().doc, trimmed(std::string_view(text).substr(kBehind.size())));
      }
      continue;
    }
    if (const auto comment = comment_in(line)) {
      append(doc, indent_of(line) == indent ? *comment : "");
      continue;
    }
    if (code.empty() && indent_of(line) != indent) {
      doc = text.empty() ? "" : doc;
      continue;
    }
    const std::size_t mark = text.find("//");
    append(code, trimmed(text.substr(0, mark)));
    const bool is_whole = code.ends_with(';') || code.ends_with('{') || code.ends_with('}') ||
                          code.ends_with(':') || code.empty();
    if (!is_whole) {
      continue;
    }
    auto field = field_in(std::exchange(code, ""));
    is_behind_field = field.has_value();
    if (field) {
      field->doc = std::exchange(doc, "");
      if (mark != std::string::npos && text.substr(mark).starts_with(kBehind)) {
        append(field->doc, trimmed(text.substr(mark + kBehind.size())));
      }
      fields.push_back(*std::move(field));
    }
    doc.clear();
  }
  return fields;
}

// Whether a comment begins with the name of a section and a colon.
bool begins_section(std::string_view comment) {
  static constexpr std::array<std::string_view, 9> kSections{
      "Dtypes", "Units", "Errors", "Threads", "Lifetime", "Cost", "Paper", "Papers", "Note"};
  return comment.empty() || std::ranges::any_of(kSections, [&](std::string_view section) {
           return comment.starts_with(section) && comment[section.size()] == ':';
         });
}

// Reads an enumerator as a field without a type: `name,` as `int name;`.
std::vector<DeclaredField> enumerators_in(std::vector<std::string> lines) {
  for (std::string& line : lines) {
    const std::size_t begin = indent_of(line);
    if (begin == 2 && is_name(line[begin])) {
      std::size_t end = begin;
      while (end < line.size() && is_name(line[end])) {
        ++end;
      }
      const std::size_t mark = line.find("///<", end);
      line = "  int " + line.substr(begin, end - begin) + ";" +
             (mark == std::string::npos ? "" : line.substr(mark));
    }
  }
  return fields_in(lines, 2);
}

void read_fields(DeclaredStruct& declared) {
  static constexpr std::string_view kUsing = "  using Config = ";
  for (const std::string& line : declared.lines) {
    if (line.starts_with(kUsing)) {
      declared.config = line.substr(kUsing.size(), line.find(';') - kUsing.size());
    }
  }
  const auto begin = std::ranges::find(declared.lines, "  struct Config {");
  declared.has_config = begin != declared.lines.end();
  if (declared.has_config) {
    declared.fields = fields_in({begin + 1, std::find(begin, declared.lines.end(), "  };")}, 4);
  } else if (!declared.is_class) {
    declared.fields = fields_in(declared.lines, 2);
  }
}

}  // namespace

std::vector<DeclaredFunction> functions_in(std::string_view header) {
  const std::vector<std::string> lines = split_lines(header);
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
                               text.starts_with("UniqueValues ") ||
                               text.starts_with("SignAndLog ") || text.starts_with("Qr ") ||
                               text.starts_with("Eigh ") || text.starts_with("Svd ") ||
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
                         .parameters = parameters_in(text.substr(open + 1, close - open - 1)),
                         .types = text.substr(open + 1, close - open - 1),
                         .section = section,
                         .doc = first_sentence(std::exchange(doc, ""))});
  }
  return functions;
}

std::vector<DeclaredStruct> structs_in(std::string_view header) {
  std::vector<DeclaredStruct> structs;
  std::string doc;
  bool is_open = false;
  bool is_detail = false;
  for (const std::string& line : split_lines(header)) {
    if (line == "namespace detail {" || line == "}  // namespace detail") {
      is_detail = line.starts_with("namespace");
    }
    if (is_open) {
      is_open = line != "};";
      structs.back().lines.push_back(line);
    } else if (const auto comment = comment_in(line)) {
      doc += *comment + "\n";
    } else {
      const bool is_class = line.starts_with("class ");
      if (!is_detail && (is_class || line.starts_with("struct ")) && line.ends_with('{')) {
        const std::size_t begin = line.find(' ') + 1;
        const std::size_t end = line.find_first_of(" <", begin);
        structs.push_back({.name = line.substr(begin, end - begin), .doc = doc});
        structs.back().is_class = is_class;
        is_open = true;
      }
      doc.clear();
    }
  }
  std::ranges::for_each(structs, read_fields);
  return structs;
}

std::vector<DeclaredEnum> enums_in(std::string_view header) {
  static constexpr std::string_view kEnum = "enum class ";
  std::vector<DeclaredEnum> enums;
  std::vector<std::string> body;
  std::string doc;
  bool is_open = false;
  bool is_detail = false;
  for (const std::string& line : split_lines(header)) {
    if (line == "namespace detail {" || line == "}  // namespace detail") {
      is_detail = line.starts_with("namespace");
    }
    if (is_open && line == "};") {
      enums.back().enumerators = enumerators_in(std::exchange(body, {}));
      is_open = false;
    } else if (is_open) {
      body.push_back(line);
    } else if (const auto comment = comment_in(line)) {
      append(doc, *comment);
    } else {
      if (!is_detail && line.starts_with(kEnum) && line.ends_with('{')) {
        enums.push_back(
            {.name = line.substr(kEnum.size(), line.find(' ', kEnum.size()) - kEnum.size()),
             .doc = doc,
             .enumerators = {}});
        is_open = true;
      }
      doc.clear();
    }
  }
  return enums;
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
  std::vector<std::string> lines = split_lines(doc);
  for (std::string& line : lines) {
    line = "/// " + line;
  }
  return shapes_in(lines);
}

std::vector<std::string> modules_in(std::string_view header) {
  static constexpr std::string_view kModule = "HEARTH_MODULE(";
  std::vector<std::string> names;
  for (const std::string& line : split_lines(header)) {
    const std::string text = trimmed(line);
    if (text.starts_with(kModule)) {
      names.push_back(text.substr(kModule.size(), text.find_first_of(",)") - kModule.size()));
    }
  }
  return names;
}

}  // namespace hearth::docs
