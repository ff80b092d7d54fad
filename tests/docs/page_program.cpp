#include "page_program.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

namespace hearth::docs {
namespace {

// A line of code with its line number on the page.
struct Line {
  std::string text;
  int number = 0;
};

// Code that shares names: from the top of the page, or from a `fresh` block, to the next one.
struct Scope {
  std::vector<Line> types;       // at namespace scope: types and functions
  std::vector<Line> statements;  // in the body of the test
};

constexpr std::string_view kThrows = "// throws ";

[[noreturn]] void refuse(const Page& page, int line, const std::string& text) {
  throw std::runtime_error(page.name + ":" + std::to_string(line) + ": " + text);
}

std::string identifier(std::string_view name) {
  std::string id;
  for (const char c : name) {
    id += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  }
  return id;
}

std::string literal(std::string_view text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      all += '\\';
    }
    all += c == '\n' ? std::string("\\n\"\n\"") : std::string(1, c);
  }
  return all + "\"";
}

bool begins_type(std::string_view line) {
  static constexpr std::array<std::string_view, 5> kWords{
      "struct ", "class ", "enum ", "template ", "template<"};
  return std::ranges::any_of(kWords, [&](std::string_view word) { return line.starts_with(word); });
}

// A function such as `hearth::Tensor loss(const Model& model) {`: in column 0, a type, a name,
// parameters, an open brace.
bool begins_function(std::string_view line) {
  if (line.empty() || (std::isalpha(static_cast<unsigned char>(line[0])) == 0 && line[0] != '[') ||
      !line.ends_with(") {")) {
    return false;
  }
  const std::string_view head = line.substr(0, line.find('('));
  const std::string_view first = head.substr(0, head.find(' '));
  static constexpr std::array<std::string_view, 7> kStatements{
      "if", "for", "while", "switch", "else", "do", "return"};
  return first.size() < head.size() && head.find('=') == std::string_view::npos &&
         !head.ends_with(' ') && std::ranges::find(kStatements, first) == kStatements.end();
}

bool ends_at_once(std::string_view line) {
  return line.ends_with("};") || line.ends_with(";");
}

// Sorts the lines of a block: includes, types and functions move to the top of the program.
void sort_lines(const Block& block, std::set<std::string>& includes, Scope& scope) {
  bool is_type = false;
  for (std::size_t i = 0; i < block.lines.size(); ++i) {
    const std::string& text = block.lines[i];
    const Line line{.text = text, .number = block.line + static_cast<int>(i)};
    if (is_type) {
      scope.types.push_back(line);
      is_type = !text.starts_with("}");
    } else if (text.starts_with("#include ")) {
      includes.insert(text);
    } else if (begins_type(text) || begins_function(text)) {
      scope.types.push_back(line);
      is_type = !ends_at_once(text);
    } else {
      scope.statements.push_back(line);
    }
  }
}

bool ends_statement(std::string_view text) {
  const std::size_t comment = text.find("//");
  std::string_view code = text.substr(0, comment);
  while (code.ends_with(' ')) {
    code.remove_suffix(1);
  }
  return code.empty() || code.ends_with(';') || code.ends_with('{') || code.ends_with('}');
}

class Writer {
 public:
  void line(std::string_view text) { text_ += std::string(text) + "\n"; }
  // Makes the compiler's errors name the page.
  void place(const Page& page, int number) {
    line("#line " + std::to_string(number) + " " + literal(page.name));
  }
  void copy(const Page& page, std::span<const Line> lines) {
    int expected = -1;
    for (const Line& each : lines) {
      if (each.number != expected) {
        place(page, each.number);
      }
      line(each.text);
      expected = each.number + 1;
    }
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Writes the statements of a block. A statement that ends in `// throws ...` becomes a function
// that must throw.
void write_statements(Writer& out, const Page& page, std::span<const Line> lines) {
  std::size_t begin = 0;  // of the statements not yet written
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::size_t mark = lines[i].text.find(kThrows);
    if (mark == std::string::npos) {
      continue;
    }
    std::size_t first = i;
    while (first > begin && !ends_statement(lines[first - 1].text)) {
      --first;
    }
    std::string_view what = std::string_view(lines[i].text).substr(mark + kThrows.size());
    const std::size_t colon = what.find(": ");
    std::string type(what.substr(0, colon));
    const std::string text(colon == std::string_view::npos ? "" : what.substr(colon + 2));
    if (type.empty() || type.find(' ') != std::string::npos) {
      refuse(page, lines[i].number, "`// throws` wants a type, and after `: ` a part of its text");
    }
    if (type.find("::") == std::string::npos) {
      type = "hearth::" + type;
    }
    out.copy(page, lines.subspan(begin, first - begin));
    out.line("docs_page.expect_throw<" + type + ">(" + std::to_string(lines[i].number) + ", " +
             literal(text) + ", [&] {");
    out.copy(page, lines.subspan(first, i + 1 - first));
    out.line("});");
    begin = i + 1;
  }
  out.copy(page, lines.subspan(begin));
}

bool has_main(const Block& block) {
  return std::ranges::any_of(block.lines,
                             [](const std::string& line) { return line.starts_with("int main("); });
}

bool is_in_examples(const Block& block, const std::vector<std::string>& examples) {
  const std::string text = block.text();
  return std::ranges::any_of(examples, [&](const std::string& each) {
    return each.ends_with(text) && (each.size() == text.size() || text.starts_with("int main"));
  });
}

// Writes the tests of one page.
class PageWriter {
 public:
  PageWriter(const Page& page, Writer& body, std::set<std::string>& includes)
      : page_(page), body_(body), includes_(includes) {}

  void write(const std::vector<std::string>& examples) {
    for (std::size_t i = 0; i < page_.blocks.size(); ++i) {
      const Block& block = page_.blocks[i];
      if (block.hidden && block.has_word("fresh")) {
        finish();
      }
      if (block.language != "cpp" || is_in_examples(block, examples)) {
        continue;
      }
      if (has_main(block)) {
        write_program(block, output_of(page_, i));
      } else {
        add(block, output_of(page_, i));
      }
    }
    finish();
  }

 private:
  void begin_test(std::string_view name) {
    body_.line("TEST(" + identifier(page_.name) + ", " + std::string(name) + ") {");
    body_.line("hearth::docs::PageRun docs_page(" + literal(page_.name) + ");");
  }

  void expect_output(const Block* text) {
    if (text != nullptr) {
      body_.line("docs_page.expect_output(" + std::to_string(text->line) + ", " +
                 literal(text->text()) + ");");
    }
  }

  void add(const Block& block, const Block* output) {
    Scope parts;
    sort_lines(block, includes_, parts);
    types_.copy(page_, parts.types);
    statements_.line("docs_page.begin_block(" + std::to_string(block.line) + ");");
    const bool runs = !block.has_word("compiles");
    if (!runs) {
      statements_.line("[[maybe_unused]] const auto docs_compiles_" + std::to_string(block.line) +
                       " = [&] {");
    }
    write_statements(statements_, page_, parts.statements);
    statements_.line(runs ? "" : "};");
    if (output != nullptr) {
      statements_.line("docs_page.expect_output(" + std::to_string(output->line) + ", " +
                       literal(output->text()) + ");");
    }
    is_empty_ = false;
  }

  void finish() {
    const std::string types = types_.take();
    const std::string statements = statements_.take();
    if (!std::exchange(is_empty_, true)) {
      const std::string name = "Part" + std::to_string(++tests_);
      body_.line("namespace docs_" + identifier(page_.name) + "_" + name + " {");
      body_.line(types);
      begin_test(name);
      body_.line(statements);
      body_.line("}\n}");
    }
  }

  // Writes a block with a main() into its own namespace.
  void write_program(const Block& block, const Block* output) {
    const std::string name = "Program" + std::to_string(++tests_);
    body_.line("namespace docs_" + identifier(page_.name) + "_" + name + " {");
    std::vector<Line> lines;
    bool is_main = false;
    for (std::size_t i = 0; i < block.lines.size(); ++i) {
      std::string text = block.lines[i];
      if (is_main && text == "}") {
        text = "return 0; }";  // a main() may leave out its return
        is_main = false;
      }
      if (text.starts_with("#include ")) {
        includes_.insert(text);
        continue;
      }
      if (text.starts_with("int main(")) {
        if (!text.starts_with("int main() ")) {
          refuse(page_, block.line + static_cast<int>(i), "only `int main()` can be called");
        }
        text.replace(0, std::string_view("int main()").size(), "int docs_main()");
        is_main = true;
      }
      lines.push_back({.text = text, .number = block.line + static_cast<int>(i)});
    }
    body_.copy(page_, lines);
    begin_test(name);
    body_.line("docs_page.begin_block(" + std::to_string(block.line) + ");");
    body_.line("EXPECT_EQ(docs_main(), 0);");
    expect_output(output);
    body_.line("}\n}");
  }

  const Page& page_;
  Writer& body_;
  std::set<std::string>& includes_;
  Writer types_;
  Writer statements_;
  bool is_empty_ = true;
  int tests_ = 0;
};

}  // namespace

std::string page_program(const std::vector<Page>& pages, const std::vector<std::string>& examples) {
  std::set<std::string> includes;
  Writer body;
  for (const Page& page : pages) {
    PageWriter(page, body, includes).write(examples);
  }
  Writer program;
  program.line("#include <gtest/gtest.h>");
  program.line("#include \"tests/docs/page_run.hpp\"");
  for (const std::string& include : includes) {
    program.line(include);
  }
  program.line(body.take());
  return program.take();
}

}  // namespace hearth::docs
