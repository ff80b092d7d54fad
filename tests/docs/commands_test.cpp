// The commands in README.md and docs/: the programs, scripts, presets, options and variables that a
// page names exist. Blocks marked `runs` are also run. No page is missing from the tests.
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/settings.hpp>

#include "page.hpp"
#include "page_run.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/repo/source_tree.hpp"

namespace hearth::docs {
namespace {

namespace fs = std::filesystem;

// Programs on every machine that can build Hearth, and the program that a reader has built.
const std::set<std::string, std::less<>> kOrdinary{"build/program",
                                                   "cat",
                                                   "cd",
                                                   "curl",
                                                   "export",
                                                   "git",
                                                   "head",
                                                   "ls",
                                                   "mkdir",
                                                   "python3",
                                                   "sudo",
                                                   "apt",
                                                   "sort"};

bool is_page(const repo::SourceFile& file) {
  return file.path == "README.md" ||
         (file.is_in("docs") && (file.path.ends_with(".md") || file.path.ends_with(".dox")));
}

// A command with its variables, split as a shell would split it, except inside quotes.
struct Command {
  std::vector<std::string> variables;  // HEARTH_DEVICES=auto
  std::vector<std::string> words;
};

std::vector<Command> commands_of(const Block& block) {
  std::string text;
  for (const std::string& line : block.lines) {
    const std::size_t comment = line.starts_with("#") ? 0 : line.find(" #");
    std::string code = line.substr(0, comment);
    const bool goes_on = code.ends_with("\\");
    if (goes_on) {
      code.pop_back();
    }
    text += code + (goes_on ? " " : " ; ");
  }
  std::vector<Command> commands(1);
  std::istringstream stream(text);
  for (std::string word; stream >> word;) {
    Command& last = commands.back();
    if (word == ";" || word == "&&" || word == "||" || word == "|") {
      commands.emplace_back();
    } else if (last.words.empty() && word.find('=') != std::string::npos) {
      last.variables.push_back(word);
    } else {
      last.words.push_back(word);
    }
  }
  std::erase_if(commands, [](const Command& each) { return each.words.empty(); });
  return commands;
}

class Commands : public ::testing::Test {
 protected:
  const std::vector<repo::SourceFile> tree = repo::load_source_tree();

  [[nodiscard]] std::string text_in(std::string_view folder) const {
    std::string text;
    for (const repo::SourceFile& file : tree) {
      if (file.path == folder || file.is_in(folder)) {
        for (const std::string& line : file.lines) {
          text += line + "\n";
        }
      }
    }
    return text;
  }
  [[nodiscard]] bool has_file(const std::string& path) const {
    return std::ranges::any_of(tree, [&](const auto& file) { return file.path == path; });
  }
  [[nodiscard]] std::vector<Page> pages() const {
    std::vector<Page> all;
    for (const repo::SourceFile& file : tree) {
      if (is_page(file)) {
        all.push_back(parse_page(file.path, text_in(file.path)));
      }
    }
    return all;
  }

  // The first fault of the command; empty if all its parts exist.
  [[nodiscard]] std::string fault(const Command& command) const {
    for (const std::string& variable : command.variables) {
      const std::string name = variable.substr(0, variable.find('='));
      const bool is_known = std::ranges::any_of(
          detail::known_settings(),
          [&](const detail::SettingInfo& info) { return info.variable == name; });
      if (name.starts_with("HEARTH_") && !is_known) {
        return "no setting " + name;
      }
    }
    const std::string& program = command.words.front();
    if (program == "cmake" || program == "ctest") {
      return fault_of_cmake(command);
    }
    if (program.starts_with("./") && has_file(program.substr(2))) {
      return "";
    }
    if (program == "mpirun" || program == "srun") {  // looks at the command that it starts
      const auto started = std::ranges::find_if(
          command.words, [](const std::string& word) { return word.starts_with("build/"); });
      return started == command.words.end() ? "no program after " + program
                                            : fault({{}, {started, command.words.end()}});
    }
    const fs::path path(program);
    const std::string name = path.filename().string();
    for (const char* folder : {"examples", "bench"}) {
      const std::string list = text_in(std::string(folder) + "/CMakeLists.txt");
      const bool is_there = program == std::string("build/release/") + folder + "/" + name ||
                            (program == name && name.starts_with("hearth-"));
      if (is_there && repo::has_token(list, name)) {
        return fault_of_options(command, text_in(folder));
      }
    }
    return kOrdinary.contains(program) ? "" : "no program " + program;
  }

 private:
  [[nodiscard]] static std::string fault_of_options(const Command& command,
                                                    const std::string& sources) {
    // `hearth-bench op` makes an option of each name in its table of kinds.
    const bool is_op = command.words.size() > 1 && command.words[1] == "op";
    for (const std::string& word : command.words) {
      const std::string option = word.substr(0, word.find('='));
      if (option.starts_with("--") && option.size() > 2 && option != "--help" &&
          !option.starts_with("--benchmark_") &&
          sources.find("\"" + option + "\"") == std::string::npos &&
          !(is_op && sources.find("\"" + option.substr(2) + "\"") != std::string::npos)) {
        return "no option " + option + " of " + command.words.front();
      }
    }
    return "";
  }

  [[nodiscard]] std::string fault_of_cmake(const Command& command) const {
    const std::string options = text_in("CMakeLists.txt");
    const std::string presets = text_in("CMakePresets.json");
    for (std::size_t i = 0; i + 1 < command.words.size(); ++i) {
      const std::string& value = command.words[i + 1];
      if (command.words[i] == "--preset" &&
          presets.find("\"name\": \"" + value + "\"") == std::string::npos) {
        return "no preset " + value;
      }
      const std::string option = value.substr(0, value.find('='));
      if (command.words[i] == "-D" && !option.starts_with("CMAKE_") &&
          options.find("(" + option + " ") == std::string::npos) {
        return "no build option " + option;
      }
    }
    return "";
  }
};

TEST_F(Commands, NameWhatIsThere) {
  int count = 0;
  for (const Page& page : pages()) {
    for (const Block& block : page.blocks) {
      if (block.language != "sh") {
        continue;
      }
      for (const Command& command : commands_of(block)) {
        EXPECT_EQ(fault(command), "") << page.name << ", block at line " << block.line;
        ++count;
      }
    }
  }
  EXPECT_GT(count, 5);
}

TEST_F(Commands, ThatAreWrongAreSeen) {
  const auto fault_in = [&](const std::string& line) {
    return fault(commands_of({.language = "sh", .words = {}, .lines = {line}}).at(0));
  };
  EXPECT_EQ(fault_in("HEARTH_DEVICES=auto build/release/examples/first_program  # a word"), "");
  EXPECT_EQ(fault_in("HEARTH_NO_SUCH=1 ls"), "no setting HEARTH_NO_SUCH");
  EXPECT_EQ(fault_in("build/release/examples/first"), "no program build/release/examples/first");
  EXPECT_EQ(fault_in("build/release/examples/train_mnist --speed 3"),
            "no option --speed of build/release/examples/train_mnist");
  EXPECT_EQ(fault_in("cmake --preset fast"), "no preset fast");
  EXPECT_EQ(fault_in("cmake --preset release -D HEARTH_FAST=ON"), "no build option HEARTH_FAST");
  EXPECT_EQ(fault_in("./no_script.sh"), "no program ./no_script.sh");
}

// Languages that GitHub shows and these tests handle. "c" marks kernel files of hearth-bench:
// BenchCommands compiles such files, and no page program does.
TEST_F(Commands, EveryBlockSaysItsLanguage) {
  const std::set<std::string, std::less<>> known{
      "cpp", "c", "sh", "text", "cmake", "python", "rust"};
  for (const Page& page : pages()) {
    for (const Block& block : page.blocks) {
      EXPECT_TRUE(known.contains(block.language))
          << page.name << ":" << block.line << ": '" << block.language << "'";
    }
  }
}

TEST_F(Commands, EveryPageIsTested) {
  const std::string list = text_in("tests/docs/CMakeLists.txt");
  for (const Page& page : pages()) {
    EXPECT_TRUE(repo::has_token(list, page.name)) << page.name << " is not in CMakeLists.txt";
  }
}

// Runs the blocks marked `runs` whose programs are built, each in an empty folder.
TEST_F(Commands, ThatAreCheapRun) {
  for (const Page& page : pages()) {
    for (std::size_t i = 0; i < page.blocks.size(); ++i) {
      const Block& block = page.blocks[i];
      if (block.language != "sh" || !block.has_word("runs")) {
        continue;
      }
      const std::string place = page.name + ":" + std::to_string(block.line);
      const bool is_built = std::ranges::all_of(commands_of(block), [](const Command& command) {
        const std::string& program = command.words.front();
        return !program.starts_with("build/release/") ||
               fs::exists(fs::path(HEARTH_BUILD_DIR) / program.substr(14));
      });
      if (!is_built) {
        continue;  // HEARTH_BUILD_EXAMPLES or HEARTH_BUILD_BENCH is off
      }
      const TemporaryFolder folder;
      fs::create_directory(folder.path() / "build");
      fs::create_directory_symlink(HEARTH_BUILD_DIR, folder.path() / "build/release");
      std::ofstream(folder.path() / "block.sh") << block.text();
      const std::string run =
          "cd '" + folder.path().string() + "' && bash -euo pipefail block.sh 2>&1";
      FILE* const pipe = ::popen(run.c_str(), "r");  // NOLINT(cert-env33-c)
      ASSERT_NE(pipe, nullptr);
      std::string output;
      std::array<char, 4096> buffer{};
      for (std::size_t got = 0; (got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
        output.append(buffer.data(), got);
      }
      const int status = ::pclose(pipe);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << place << ":\n" << output;
      if (const Block* text = output_of(page, i)) {
        EXPECT_TRUE(fits(output, text->text())) << place << " printed:\n" << output;
      }
    }
  }
}

}  // namespace
}  // namespace hearth::docs
