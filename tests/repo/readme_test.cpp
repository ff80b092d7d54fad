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
    const bool is_page = file.is_in("docs") && file.path.ends_with(".md");
    if (!is_page && file.name() != "README.md" && file.name() != "CONTRIBUTING.md") {
      continue;
    }
    for (const std::string& line : file.lines) {
      for (std::sregex_iterator it(line.begin(), line.end(), link), end; it != end; ++it) {
        const std::string folder = file.folder();
        const std::filesystem::path relative((folder.empty() ? "" : folder + "/") +
                                             std::string((*it)[1]));
        const std::string path = relative.lexically_normal().string();
        EXPECT_TRUE(has_file_or_folder(path)) << file.path << ": " << path;
      }
    }
  }
}

}  // namespace
}  // namespace hearth::repo
