// The places and the sizes of files.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "source_tree.hpp"

namespace hearth::repo {
namespace {

constexpr std::size_t kMaxLines = 600;
constexpr std::size_t kMaxTableLines = 800;  // op tables and tests
constexpr std::size_t kMaxReadmeLines = 60;
constexpr std::size_t kMaxDecisionLines = 25;

// The floors; a folder includes lower floors and itself. Siblings never include one another.
const std::map<std::string, int, std::less<>> kFloors{{"base", 0},
                                                      {"streams", 1},
                                                      {"memory", 1},
                                                      {"autotune", 1},
                                                      {"backends", 2},
                                                      {"runtime", 3},
                                                      {"modules", 4},
                                                      {"parallel", 5}};

std::string room_of(std::string_view path) {
  if (path.starts_with("runtime/base/")) {
    return "base";
  }
  return std::string(path.substr(0, path.find('/')));
}

class Layout : public ::testing::Test {
 protected:
  const std::vector<SourceFile> tree = load_source_tree();

  [[nodiscard]] const SourceFile* find(const std::string& path) const {
    for (const SourceFile& file : tree) {
      if (file.path == path) {
        return &file;
      }
    }
    return nullptr;
  }

  // The README.md of the file's folder, or of the nearest folder above it below the root.
  [[nodiscard]] const SourceFile* readme_of(const SourceFile& file) const {
    for (std::string folder = file.folder(); !folder.empty();) {
      if (const SourceFile* readme = find(folder + "/README.md")) {
        return readme;
      }
      const std::size_t slash = folder.rfind('/');
      folder = slash == std::string::npos ? std::string{} : folder.substr(0, slash);
    }
    return nullptr;
  }
};

TEST_F(Layout, FilesStayBelowTheHardStop) {
  for (const SourceFile& file : tree) {
    if (!file.is_cpp()) {
      continue;
    }
    const bool is_table = file.is_in("tests") || file.stem().ends_with("_table");
    EXPECT_LE(file.lines.size(), is_table ? kMaxTableLines : kMaxLines) << file.path;
  }
}

TEST_F(Layout, EveryRoomHasAShortReadme) {
  for (const SourceFile& file : tree) {
    if (file.name() == "README.md" && !file.folder().empty()) {
      EXPECT_LE(file.lines.size(), kMaxReadmeLines) << file.path;
    }
    if (file.is_cpp() && !file.folder().empty()) {
      EXPECT_NE(readme_of(file), nullptr) << "no README.md for " << file.path;
    }
  }
}

// Decisions are files of a folder's decisions/. Its archive.md lists what was tried and not kept.
TEST_F(Layout, DecisionsAreShortFilesOfFourParts) {
  const std::regex numbered(R"(\d{4}(-[a-z0-9]+)+\.md)");
  std::set<std::string> numbers;  // each with its folder
  for (const SourceFile& file : tree) {
    const std::string name = file.name();
    EXPECT_NE(name, "DECISIONS.md") << file.path;
    const bool has_list = std::ranges::any_of(
        file.lines, [](const std::string& line) { return line.starts_with("## Decisions"); });
    EXPECT_FALSE(name == "README.md" && has_list) << file.path;
    if (!file.folder().ends_with("/decisions") || name == "archive.md") {
      continue;
    }
    EXPECT_TRUE(std::regex_match(name, numbered)) << file.path;
    EXPECT_TRUE(numbers.insert(file.folder() + "/" + name.substr(0, 4)).second)
        << file.path << ": another file has its number";
    EXPECT_LE(file.lines.size(), kMaxDecisionLines) << file.path;
    for (const char* const part : {"Context: ", "Decision: ", "Consequence: ", "Superseded-by: "}) {
      const auto count = std::ranges::count_if(
          file.lines, [part](const std::string& line) { return line.starts_with(part); });
      EXPECT_EQ(count, 1) << file.path << ": " << part;
    }
  }
  EXPECT_GT(numbers.size(), 100U);
}

TEST_F(Layout, ReadmesNameEveryLibraryFile) {
  for (const SourceFile& file : tree) {
    const SourceFile* readme = readme_of(file);
    const bool is_listed = is_library(file) || file.is_in("bench") || file.is_in("examples");
    if (!file.is_cpp() || !is_listed || readme == nullptr) {
      continue;
    }
    bool is_named = false;
    for (const std::string& line : readme->lines) {
      is_named = is_named || has_token(line, file.stem());
    }
    EXPECT_TRUE(is_named) << readme->path << " does not name " << file.name();
  }
}

TEST_F(Layout, EverySourceIsBuilt) {
  for (const SourceFile& file : tree) {
    if (!file.is_source() || file.is_in("tests/install/consumer") ||
        file.is_in("tests/newcomers")) {
      continue;
    }
    bool is_listed = false;
    for (const SourceFile& list : tree) {
      if (list.name() != "CMakeLists.txt" || !file.is_in(list.folder())) {
        continue;
      }
      for (const std::string& line : list.lines) {
        is_listed = is_listed || (!line.starts_with('#') && has_token(line, file.stem()));
      }
    }
    EXPECT_TRUE(is_listed) << file.path << " stands in no CMakeLists.txt";
  }
}

TEST_F(Layout, IncludesGoDownTheFloors) {
  static constexpr std::string_view kPrefix = "<hearth/";
  for (const SourceFile& file : tree) {
    if (!file.is_cpp() || !is_library(file)) {
      continue;
    }
    const std::string own = room_of(file.path);
    for (const std::string& line : file.code) {
      const std::string_view path = included_path(line);
      if (!path.starts_with(kPrefix)) {
        continue;
      }
      const std::string other = room_of(path.substr(kPrefix.size()));
      const auto floor = kFloors.find(other);
      ASSERT_NE(floor, kFloors.end()) << file.path << ": " << line;
      EXPECT_TRUE(other == own || floor->second < kFloors.at(own)) << file.path << ": " << line;
    }
  }
}

TEST_F(Layout, IncludesNeverClimb) {
  const std::string climb = "..";
  for (const SourceFile& file : tree) {
    for (const std::string& line : file.code) {
      EXPECT_EQ(included_path(line).find(climb + "/"), std::string_view::npos)
          << file.path << ": " << line;
    }
  }
}

// A private header lies in the includer's own folder, or is named by its path from the root and
// lies in a room of the same floor.
TEST_F(Layout, PrivateIncludesStayOnTheirFloor) {
  for (const SourceFile& file : tree) {
    if (!file.is_cpp() || !is_library(file)) {
      continue;
    }
    for (const std::string& line : file.code) {
      const std::string_view path = included_path(line);
      if (!path.starts_with('"')) {
        continue;
      }
      const std::string name(path.substr(1));
      const bool is_own = name.find('/') == std::string::npos;
      const std::string found = is_own ? file.folder() + "/" + name : name;
      EXPECT_NE(find(found), nullptr) << file.path << ": " << line;
      EXPECT_TRUE(is_own || room_of(name) == room_of(file.path)) << file.path << ": " << line;
    }
  }
}

TEST_F(Layout, HeadersOpenWithTheirContract) {
  for (const SourceFile& file : tree) {
    if (!file.is_header() || file.lines.empty()) {
      continue;
    }
    EXPECT_TRUE(file.lines.front().starts_with("// ")) << file.path;
    bool is_guarded = false;
    for (const std::string& line : file.lines) {
      is_guarded = is_guarded || line == "#pragma once";
    }
    EXPECT_TRUE(is_guarded) << file.path << " lacks #pragma once";
  }
}

// Readers read whole examples. A longer example has parts in other files.
TEST_F(Layout, ExamplesStayShort) {
  for (const SourceFile& file : tree) {
    if (file.is_in("examples") && file.is_source()) {
      EXPECT_LE(file.lines.size(), file.name() == "train_mnist.cpp" ? 250U : 150U) << file.path;
    }
  }
}

// all.hpp includes every public header of its folder, except those of a target that hearth::hearth
// does not link.
TEST_F(Layout, TheHeadersForProgramsLeaveNothingOut) {
  const std::regex header(R"([\w/]+\.hpp\b)");
  for (const std::string folder : {"runtime", "modules", "parallel"}) {
    const SourceFile* const all = find(folder + "/all.hpp");
    const SourceFile* const list = find(folder + "/CMakeLists.txt");
    ASSERT_NE(all, nullptr);
    ASSERT_NE(list, nullptr);
    std::set<std::string> listed;
    for (const std::string& line : list->lines) {
      for (std::sregex_iterator it(line.begin(), line.end(), header), end; it != end; ++it) {
        listed.insert(it->str());
      }
    }
    listed.erase("all.hpp");
    EXPECT_GT(listed.size(), 10U);
    for (const std::string& path : listed) {
      const SourceFile* const file = find(folder + "/" + path);
      ASSERT_NE(file, nullptr) << folder << "/" << path;
      std::string opening;
      for (const std::string& line : file->lines) {
        if (!line.starts_with("// ")) {
          break;
        }
        opening += line.substr(2);
      }
      const bool is_internal = opening.find("eader-internal") != std::string::npos ||
                               opening.find("arget of its own") != std::string::npos;
      const bool is_in = std::ranges::any_of(all->lines, [&](const std::string& line) {
        return included_path(line) == "<hearth/" + folder + "/" + file->name();
      });
      EXPECT_NE(is_internal, is_in) << all->path << ": " << path;
    }
  }
}

// Examples include one header, and an example of a memory strategy those of its seam, and no
// internal header. The library never includes the headers for programs.
TEST_F(Layout, ExamplesIncludeOneHeaderAndTheLibraryNone) {
  for (const SourceFile& file : tree) {
    for (const std::string& line : file.code) {
      const std::string_view path = included_path(line);
      const bool is_for_programs = path == "<hearth/hearth.hpp" || path.ends_with("/all.hpp");
      if (is_library(file)) {
        EXPECT_FALSE(is_for_programs) << file.path << ": " << line;
      } else if (file.is_in("examples") && path.starts_with("<hearth/")) {
        const bool is_seam =
            file.path == "examples/memory_strategy.cpp" && path.starts_with("<hearth/memory/");
        EXPECT_TRUE(path == "<hearth/hearth.hpp" || is_seam) << file.path;
      }
      if (file.is_in("examples")) {
        EXPECT_EQ(line.find("hearth::detail"), std::string::npos) << file.path << ": " << line;
      }
    }
  }
}

}  // namespace
}  // namespace hearth::repo
