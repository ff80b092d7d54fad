// Habits that the tree excludes.
#include <algorithm>
#include <regex>

#include <gtest/gtest.h>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

class Text : public ::testing::Test {
 protected:
  const std::vector<SourceFile> tree = load_source_tree();

  // One line "path:line: text" for each line of code that matches the pattern and for which `keep`
  // returns true.
  template <typename Predicate>
  [[nodiscard]] std::string matches(const std::string& pattern, Predicate keep) const {
    const std::regex regex(pattern, std::regex::optimize);
    std::string found;
    for (const SourceFile& file : tree) {
      for (std::size_t i = 0; i < file.code.size(); ++i) {
        if (keep(file, file.code[i]) && std::regex_search(file.code[i], regex)) {
          found += file.path + ":" + std::to_string(i + 1) + ": " + file.lines[i] + "\n";
        }
      }
    }
    return found;
  }
};

TEST_F(Text, NoSingletons) {
  EXPECT_EQ(matches(R"(\b(get_?)?(instance|singleton|global)\(\))",
                    [](const SourceFile& file, const std::string&) { return is_library(file); }),
            "");
}

TEST_F(Text, NoMutableStatics) {
  // Finds `static` or `inline` before a variable that is not constant; functions have a '(' first.
  // Exceptions in runtime/base: counters of process-wide unique numbers, the acts of the terminate
  // handler, the count of signals and its clock, the locks that a forked child releases, and the
  // standstill time. Exception in backends/vulkan: the Vulkan instance, because drivers limit
  // instances per process (backends/vulkan/decisions/0006-one-instance-a-process.md). Exception in
  // backends/cuda: objects of lost devices, which a kernel may still use; contexts of cards.
  const std::string pattern =
      R"(^\s*(static|inline) (?!const\b|constexpr\b|consteval\b|constinit const\b|inline const|static const|namespace\b))"
      R"([\w:<>, *&]+ \w+(\[\w*\])?( =|\{|;))";
  const std::regex counter(
      R"(std::atomic<std::u?int(32|64)_t> \w+\{|static auto\* const acts = new LastActs;|static auto\* const all = new Scopes;|static constinit Standstill standstill;|static termios modes_before;|static std::atomic<detail::InterruptClock> interrupt_clock\{|static std::array<std::atomic<int>, kMostLocks> held\{)");
  EXPECT_EQ(matches(pattern,
                    [&](const SourceFile& file, const std::string& line) {
                      const bool is_instance =
                          (file.is_in("backends/vulkan") &&
                           line.find("static Kept& kept = ") != std::string::npos) ||
                          (file.is_in("backends/cuda") &&
                           line.find("static auto* const objects = ") != std::string::npos);
                      return is_library(file) && !is_instance &&
                             !(file.is_in("runtime/base") && std::regex_search(line, counter));
                    }),
            "");
}

TEST_F(Text, NoUsingNamespaceOutsideTests) {
  EXPECT_EQ(
      matches(R"(\busing namespace\b)",
              [](const SourceFile& file, const std::string&) { return !file.is_in("tests"); }),
      "");
}

// Users know streams, but neither lanes nor tokens: only asserts may use such words. Shaders have
// other lanes, and generated texts other tokens.
TEST_F(Text, NoMessageHasWordsOfTheInside) {
  const std::regex literal(R"re("([^"\\]|\\.)*")re", std::regex::optimize);
  const std::regex inside(R"(\b(lanes?|token|doorbell|json\.exception)\b)");
  const std::regex own(R"(^\s*$|#include|HEARTH_ASSERT|static_assert)", std::regex::optimize);
  const auto has_word = [&](const std::string& line) {
    const std::sregex_iterator literals(line.begin(), line.end(), literal);
    return std::any_of(literals, std::sregex_iterator(), [&](const std::smatch& each) {
      return std::regex_search(each.str(), inside);
    });
  };
  std::string found;
  for (const SourceFile& file : tree) {
    for (std::size_t i = 0; i < file.code.size(); ++i) {
      if (is_library(file) && !file.is_in("backends/gpu") && !file.is_in("modules/generation") &&
          !std::regex_search(file.code[i], own) && has_word(file.lines[i])) {
        found += file.path + ":" + std::to_string(i + 1) + ": " + file.lines[i] + "\n";
      }
    }
  }
  EXPECT_EQ(found, "");
}

// Tests that need a user's folder use that of Ada, a made-up user.
TEST_F(Text, NoPathOfSomebodysMachine) {
  const std::string made_up_user = "/home/ada";
  std::vector<std::string> user_folders;
  for (const char* name : {"home", "root", "work", "Users", "mnt"}) {
    user_folders.push_back(std::string("/").append(name).append("/"));
  }
  for (const SourceFile& file : tree) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& folder : user_folders) {
        const std::size_t at = file.lines[i].find(folder);
        const bool is_absolute =
            at != std::string::npos &&
            file.lines[i].compare(at, made_up_user.size(), made_up_user) != 0 &&
            (at == 0 || std::string(" \"'`=(:<").find(file.lines[i][at - 1]) != std::string::npos);
        EXPECT_FALSE(is_absolute) << file.path << ":" << i + 1 << ": " << file.lines[i];
      }
    }
  }
}

TEST_F(Text, TodosNameTheirIssue) {
  const std::string mark = std::string("TO") + "DO";
  for (const SourceFile& file : tree) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      const std::size_t at = line.find(mark);
      EXPECT_TRUE(at == std::string::npos || line.compare(at + mark.size(), 2, "(#") == 0)
          << file.path << ":" << i + 1 << ": " << line;
    }
  }
}

TEST_F(Text, LinesEndPlainly) {
  for (const SourceFile& file : tree) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string& line = file.lines[i];
      EXPECT_FALSE(line.ends_with(' ') || line.ends_with('\t') || line.ends_with('\r'))
          << "trailing space: " << file.path << ":" << i + 1;
    }
  }
}

}  // namespace
}  // namespace hearth::repo
