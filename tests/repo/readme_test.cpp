// The statements of README.md and docs/ agree with the tree.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include <hearth/runtime/base/settings.hpp>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

class Readme : public ::testing::Test {
 protected:
  const std::vector<SourceFile> tree = load_source_tree();
  const std::string readme = text_of("README.md");
  const std::string settings = text_of("docs/settings.md");

  [[nodiscard]] std::string text_of(std::string_view path) const {
    std::string text;
    for (const SourceFile& file : tree) {
      for (const std::string& line : file.lines) {
        if (file.path == path) {
          text += line + "\n";
        }
      }
    }
    return text;
  }

  [[nodiscard]] bool has_file_or_folder(const std::string& path) const {
    return std::ranges::any_of(
        tree, [&](const SourceFile& file) { return file.path == path || file.is_in(path); });
  }

  [[nodiscard]] bool is_there(const std::string& folder, const std::string& path) const {
    return has_file_or_folder((std::filesystem::path(folder) / path).lexically_normal().string());
  }

  // The first group of each match in a README, a page of docs/ or CONTRIBUTING.md.
  [[nodiscard]] static std::vector<std::string> paths_in(const SourceFile& file,
                                                         const std::regex& pattern) {
    std::vector<std::string> paths;
    const bool is_page = file.is_in("docs") && file.path.ends_with(".md");
    if (!is_page && file.name() != "README.md" && file.name() != "CONTRIBUTING.md") {
      return paths;
    }
    for (const std::string& line : file.lines) {
      for (std::sregex_iterator it(line.begin(), line.end(), pattern), end; it != end; ++it) {
        paths.push_back((*it)[1]);
      }
    }
    return paths;
  }

  // The first group of each match in the file that docs/settings.md does not name between marks.
  [[nodiscard]] std::string unnamed(std::string_view path,
                                    const std::string& pattern,
                                    const std::string& mark) const {
    const std::string text = text_of(path);
    const std::regex regex(pattern);
    std::string missing = text.empty() ? std::string(path) + " is empty" : "";
    for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
      const std::string name = (*it)[1];
      missing += settings.find(mark + name + mark) == std::string::npos ? name + " " : "";
    }
    return missing;
  }
};

TEST_F(Readme, ShowsTheFirstProgramAsItIs) {
  const std::string program = text_of("examples/first_program.cpp");
  EXPECT_FALSE(program.empty());
  EXPECT_NE(readme.find("```cpp\n" + program + "```"), std::string::npos);
}

TEST_F(Readme, ShowsTheTrainerAsItIsInFifteenLines) {
  const std::string program = text_of("examples/trainer.cpp");
  const std::size_t begin = program.find("int main()");
  ASSERT_NE(begin, std::string::npos);
  const std::string shown = program.substr(begin);
  EXPECT_NE(readme.find("```cpp\n" + shown + "```"), std::string::npos);
  EXPECT_LE(std::ranges::count(shown, '\n'), 15);
}

TEST_F(Readme, ListsEverySetting) {
  for (const detail::SettingInfo& setting : detail::known_settings()) {
    EXPECT_NE(settings.find(setting.variable), std::string::npos) << setting.variable;
  }
}

TEST_F(Readme, ListsEveryBuildOption) {
  EXPECT_EQ(unnamed("CMakeLists.txt", R"(\n(?:option|set)\((HEARTH_\w+) )", "`"), "");
}

TEST_F(Readme, ListsEveryOptionOfTrainMnist) {
  EXPECT_EQ(
      unnamed("examples/train_mnist_options.hpp", R"X(add_(?:option|flag)\("(--[\w-]+)")X", ""),
      "");
}

TEST_F(Readme, NamesEveryExample) {
  for (const SourceFile& file : tree) {
    if (file.is_in("examples") && file.is_source()) {
      EXPECT_NE(readme.find("`" + file.stem() + "`"), std::string::npos) << file.path;
    }
  }
}

TEST_F(Readme, LinksToFilesThatExist) {
  const std::regex link(R"(\]\((?!https?:)([\w./-]+)\))");
  for (const SourceFile& file : tree) {
    for (const std::string& path : paths_in(file, link)) {
      EXPECT_TRUE(is_there(file.folder(), path)) << file.path << ": " << path;
    }
  }
}

// Paths in a page start at its folder, at a folder above it, or at the root.
TEST_F(Readme, NamesFilesThatExist) {
  const std::regex named(R"(`((?:[\w.-]+/)+[\w.-]+\.(?:cpp|hpp|py|sh|md|cmake)))");
  for (const SourceFile& file : tree) {
    for (const std::string& path : paths_in(file, named)) {
      bool found = is_there("", path);
      for (std::string folder = file.folder(); !found && !folder.empty();
           folder = std::filesystem::path(folder).parent_path().string()) {
        found = is_there(folder, path);
      }
      EXPECT_TRUE(found || path == "decisions/archive.md") << file.path << ": " << path;
    }
  }
}

}  // namespace
}  // namespace hearth::repo
