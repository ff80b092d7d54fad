// The names of public headers and of pages: each field of options is on a page, and a name that a
// page lists as missing is in no header.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/docs/tables/header_text.hpp"
#include "tests/repo/source_tree.hpp"

namespace hearth::docs {
namespace {

using Sources = std::vector<repo::SourceFile>;

std::string text_of(const repo::SourceFile& file) {
  std::string text;
  for (const std::string& line : file.lines) {
    text += line + "\n";
  }
  return text;
}

const repo::SourceFile* find(const Sources& sources, std::string_view path) {
  const auto found = std::ranges::find(sources, path, &repo::SourceFile::path);
  return found == sources.end() ? nullptr : &*found;
}

// The file of <hearth/PATH>: a room of its folder may hold it, at any depth.
const repo::SourceFile* find_header(const Sources& sources, std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder(path.substr(0, slash + 1));
  const std::string name(path.substr(slash + 1));
  const auto found = std::ranges::find_if(sources, [&](const repo::SourceFile& file) {
    return file.name() == name && file.path.starts_with(folder);
  });
  return found == sources.end() ? nullptr : &*found;
}

// The headers that <hearth/hearth.hpp> includes for programs.
std::vector<const repo::SourceFile*> public_headers(const Sources& sources) {
  std::vector<const repo::SourceFile*> headers;
  for (const char* all : {"runtime/all.hpp", "modules/all.hpp", "parallel/all.hpp"}) {
    for (const std::string& line : find(sources, all)->lines) {
      static constexpr std::string_view kPrefix = "<hearth/";
      const std::string_view include = repo::included_path(line);
      if (include.starts_with(kPrefix)) {
        headers.push_back(find_header(sources, include.substr(kPrefix.size())));
      }
    }
  }
  return headers;
}

// The text of a page below "### title", up to the next heading.
std::string below_heading(const std::string& page, const std::string& title) {
  const std::string heading = "\n### " + title + "\n";
  const std::size_t begin = page.find(heading);
  return begin == std::string::npos
             ? ""
             : page.substr(begin + heading.size(),
                           page.find("\n##", begin + heading.size()) - begin - heading.size());
}

// Structs of the library that no program fills in.
const std::set<std::string, std::less<>> kInternal{"PendingOptions", "LogOptions", "ThreadOptions"};

bool is_options(const DeclaredStruct& declared) {
  return declared.has_config || declared.name.ends_with("Options") ||
         declared.name.ends_with("Config") || declared.name.ends_with("Limits") ||
         declared.name.ends_with("Rate") || declared.name.ends_with("Group") ||
         declared.name.ends_with("Clip") || declared.name.ends_with("Plan");
}

// The fields of options in `headers` that `pages` lack: "TopKOptions::axis".
std::vector<std::string> fields_on_no_page(const std::vector<std::string>& headers,
                                           const std::string& pages) {
  std::vector<std::string> missing;
  for (const std::string& header : headers) {
    for (const DeclaredStruct& declared : structs_in(header)) {
      if (!is_options(declared) || kInternal.contains(declared.name)) {
        continue;
      }
      const std::string name = declared.name + (declared.has_config ? "::Config" : "");
      const std::string section = below_heading(pages, name);
      for (const DeclaredField& field : declared.fields) {
        if (section.find("| `" + field.name + "` |") == std::string::npos) {
          missing.push_back(name + "::" + field.name);
        }
      }
    }
  }
  return missing;
}

TEST(Names, EachFieldOfOptionsIsOnAPage) {
  const Sources sources = repo::load_source_tree();
  std::vector<std::string> headers;
  for (const repo::SourceFile* header : public_headers(sources)) {
    headers.push_back(text_of(*header));
  }
  ASSERT_GT(headers.size(), 100U);
  const std::string pages =
      text_of(*find(sources, "docs/options.md")) + text_of(*find(sources, "docs/ops.md"));
  EXPECT_EQ(fields_on_no_page(headers, pages), std::vector<std::string>{})
      << "list the struct in tests/docs/tables/options_page.cpp and build the target docs_pages";
}

TEST(Names, AFieldThatNoPageHasIsFound) {
  const std::string header =
      "struct TestOptions {\n"
      "  int there = 1;  ///< It is.\n"
      "  /// Of two lines,\n"
      "  /// this one.\n"
      "  std::function<void(int a, int b)> absent = {};\n"
      "  std::int64_t bytes =\n"
      "      0;  ///< Its default is on a line of its own.\n"
      "  [[nodiscard]] bool is_function() const { return there == 1; }\n"
      "};\n"
      "class Layer final {\n"
      " public:\n"
      "  struct Config {\n"
      "    int width = 0;  ///< Of it.\n"
      "  };\n"
      "  int member;\n"
      "};\n";
  EXPECT_EQ(fields_on_no_page({header}, "\n### TestOptions\n\n| `there` | `int` |\n\n## Next\n"),
            (std::vector<std::string>{
                "TestOptions::absent", "TestOptions::bytes", "Layer::Config::width"}));
  const std::vector<DeclaredField> fields = structs_in(header)[0].fields;
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(fields[1].doc, "Of two lines, this one.");
  EXPECT_EQ(fields[1].type, "std::function<void(int a, int b)>");
  EXPECT_EQ(fields[2].value, "0");
  EXPECT_EQ(fields[2].doc, "Its default is on a line of its own.");
}

TEST(Names, ScopesAndValuesThatProgramsNameAreOnAPage) {
  const Sources sources = repo::load_source_tree();
  std::string pages;
  for (const repo::SourceFile& file : sources) {
    pages += file.is_in("docs") || file.path == "README.md" ? text_of(file) : "";
  }
  std::string missing;
  for (const repo::SourceFile* header : public_headers(sources)) {
    const std::string text = text_of(*header);
    std::vector<std::string> names;
    for (const DeclaredStruct& declared : structs_in(text)) {
      if (declared.name.ends_with("Scope") || declared.name.ends_with("Cache")) {
        names.push_back(declared.name);
      }
    }
    for (const DeclaredEnum& declared : enums_in(text)) {
      const bool is_option =
          std::ranges::any_of(public_headers(sources), [&](const repo::SourceFile* other) {
            return std::ranges::any_of(structs_in(text_of(*other)), [&](const auto& declares) {
              return is_options(declares) &&
                     std::ranges::any_of(declares.fields, [&](const DeclaredField& field) {
                       return repo::has_token(field.type, declared.name);
                     });
            });
          });
      if (is_option) {
        names.push_back(declared.name);
      }
    }
    for (const std::string& name : names) {
      missing += repo::has_token(pages, name) ? "" : header->path + ": " + name + "\n";
    }
  }
  EXPECT_EQ(missing, "");
}

// ---- missing names ----

// The names in `backticks` of the lists that begin with "Hearth does not:". Names in parentheses
// are left out, because they are the replacements.
std::vector<std::string> names_of_missing(const std::string& page) {
  static const std::regex kName("`([A-Za-z_][A-Za-z_0-9]*)`");
  std::vector<std::string> names;
  std::istringstream lines(page);
  std::string list;
  bool is_list = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with("Hearth does not:")) {
      is_list = true;
    } else if (is_list && (line.empty() || line.starts_with("- ") || line.starts_with("  "))) {
      list += line + "\n";
    } else {
      is_list = false;
    }
  }
  int depth = 0;
  bool is_code = false;
  std::string outside;
  for (const char c : list) {
    is_code = c == '`' ? !is_code : is_code;
    depth += c == '(' && !is_code ? 1 : 0;
    outside += depth == 0 ? std::string(1, c) : "";
    depth -= c == ')' && !is_code ? 1 : 0;
  }
  for (std::sregex_iterator it(outside.begin(), outside.end(), kName), end; it != end; ++it) {
    names.push_back((*it)[1]);
  }
  return names;
}

// The names that a header declares: functions, types, layers, fields and enumerators. Ops come from
// the table.
void add_names(const std::string& header, std::set<std::string>& names) {
  static const std::regex kDeclared(
      "(^|[ *&\\n])([A-Za-z_]\\w*)\\(|(struct|class|HEARTH_MODULE\\() ?(\\w+)");
  const std::string code = repo::strip_comments_and_literals(header);
  for (std::sregex_iterator it(code.begin(), code.end(), kDeclared), end; it != end; ++it) {
    names.insert((*it)[2].matched ? (*it)[2] : (*it)[4]);
  }
  for (const DeclaredStruct& declared : structs_in(header)) {
    for (const DeclaredField& field : declared.fields) {
      names.insert(field.name);
    }
  }
  for (const DeclaredEnum& declared : enums_in(header)) {
    for (const DeclaredField& value : declared.enumerators) {
      names.insert(value.name);
    }
  }
}

TEST(Limits, ListNothingThatExists) {
  const Sources sources = repo::load_source_tree();
  std::set<std::string> declared;
  add_names(text_of(*find(sources, "streams/op_kind.hpp")), declared);
  ASSERT_TRUE(declared.contains("conv2d_backward_input")) << "the table of ops is read";
  for (const repo::SourceFile* header : public_headers(sources)) {
    add_names(text_of(*header), declared);
  }
  const std::vector<std::string> missing =
      names_of_missing(text_of(*find(sources, "docs/limits.md")));
  ASSERT_GT(missing.size(), 20U) << "the lists are read";
  for (const std::string& name : missing) {
    EXPECT_FALSE(declared.contains(name)) << "docs/limits.md says that there is no " << name;
  }
}

TEST(Limits, ANameThatExistsIsFound) {
  const std::string page =
      "What others have and Hearth does not:\n\n"
      "- `absent`, `topk` and `Linear` (`written_so(x)` is one), `p`,\n"
      "  `tan` (f(x) `sort`).\n"
      "\nHearth has some: `sum`.\n";
  const std::vector<std::string> names = names_of_missing(page);
  EXPECT_EQ(names, (std::vector<std::string>{"absent", "topk", "Linear", "p", "tan"}));
  std::set<std::string> declared;
  add_names(
      "[[nodiscard]] TopK topk(Arg x, std::int64_t absent = 0);\n"
      "struct Linear {\n"
      "  double p = 0.5;  // tan(x) is in a comment\n"
      "};\n",
      declared);
  EXPECT_EQ(declared, (std::set<std::string>{"topk", "Linear", "p"}));
}

}  // namespace
}  // namespace hearth::docs
