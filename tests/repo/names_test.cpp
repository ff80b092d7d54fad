// Names within a batch: the files of a backend are compiled several at a time, so that the unnamed
// namespaces of two files may become one. Two equal variables or types would not compile; two
// equal functions might silently overload.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

// Each of them is one library.
constexpr std::array kBatched{"backends/cpu", "backends/cuda", "backends/gpu", "backends/vulkan"};

// The name that a line at the left margin declares; empty for any other line.
std::string declared_name(const std::string& line) {
  static const std::regex kType(R"(^(struct|class|enum class|union|using) (\w+).*)",
                                std::regex::optimize);
  static const std::regex kVariable(
      R"(^(inline |static )*(constexpr|const|constinit) [^=(]*?\b(k[A-Z]\w*)(\[\w*\])*( =|\{|;|$).*)",
      std::regex::optimize);
  static const std::regex kFunction(
      R"(^(?!return|namespace|using|template|struct|class|enum|extern)[A-Za-z_][\w:<>,*& \[\]]*?[ *&>](\w+)\(.*)",
      std::regex::optimize);
  std::smatch match;
  if (std::regex_match(line, match, kType)) {
    return match[2];
  }
  if (std::regex_match(line, match, kVariable)) {
    return match[3];
  }
  return std::regex_match(line, match, kFunction) ? match[1].str() : std::string();
}

std::vector<std::string> names_of_unnamed_namespaces(const SourceFile& file) {
  std::vector<std::string> names;
  bool is_inside = false;
  for (std::size_t i = 0; i < file.code.size(); ++i) {
    if (file.lines[i] == "namespace {" || file.lines[i] == "}  // namespace") {
      is_inside = file.lines[i] == "namespace {";
    } else if (is_inside) {
      if (std::string name = declared_name(file.code[i]); !name.empty()) {
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

// The loops of the CPU backend are compiled one by one, in the namespace of an instruction set.
bool is_batched(const SourceFile& file, const std::string& folder) {
  return file.is_source() && file.is_in(folder) &&
         std::ranges::none_of(file.code, [](const std::string& line) {
           return line == "namespace hearth::cpu::HEARTH_CPU_ISA {";
         });
}

TEST(Names, OfUnnamedNamespacesAreUniqueInABackend) {
  const std::vector<SourceFile> tree = load_source_tree();
  std::size_t name_count = 0;
  for (const std::string folder : kBatched) {
    std::map<std::string, std::set<std::string>> files_of;
    for (const SourceFile& file : tree) {
      if (is_batched(file, folder)) {
        for (const std::string& name : names_of_unnamed_namespaces(file)) {
          files_of[name].insert(file.path);
        }
      }
    }
    for (const auto& [name, files] : files_of) {
      std::string list;
      for (const std::string& file : files) {
        list += " " + file;
      }
      EXPECT_EQ(files.size(), 1U) << name << " stands in" << list;
    }
    name_count += files_of.size();
  }
  EXPECT_GT(name_count, 800U);  // the test finds what it looks for
}

TEST(Names, OfDeclarationsAreFound) {
  const std::map<std::string, std::string> names{
      {"struct Row {", "Row"},
      {"enum class Pass : std::uint32_t { sums, middle, last };", "Pass"},
      {"using Space = StridedSpace<kMost>;", "Space"},
      {"constexpr std::int64_t kGrain = 1;", "kGrain"},
      {"constexpr std::array kRows = {", "kRows"},
      {"constexpr KernelRow kRows[] = {", "kRows"},
      {"bool is_wide(const Layouts& layouts) noexcept {", "is_wide"},
      {"const TileProgram* program_of(const Epilogue& epilogue) {", "program_of"},
      {"constexpr std::int64_t parts(std::int64_t size, std::int64_t most) {", "parts"},
      {"Result<std::string> text_of(", "text_of"},
      {"  return text_of(form);", ""},
      {"}", ""},
      {"template <class T>", ""},
      {"extern const std::uint64_t kText;", ""}};
  for (const auto& [line, name] : names) {
    EXPECT_EQ(declared_name(line), name) << line;
  }
}

}  // namespace
}  // namespace hearth::repo
