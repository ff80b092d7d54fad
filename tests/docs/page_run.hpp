// What the generated program of a page uses while it runs: its output, and the errors that the page
// promises. The page runs in an empty folder of its own. Owned by a test. Threads: the test's.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/base/temporary_folder.hpp"

namespace hearth::docs {

/// Whether the lines of `text` are those of `pattern`, in which `…` stands for any characters of a
/// line, and alone on a line for any lines.
[[nodiscard]] bool fits(std::string_view text, std::string_view pattern);

class PageRun final {
 public:
  explicit PageRun(std::string page);
  PageRun(const PageRun&) = delete;
  PageRun& operator=(const PageRun&) = delete;
  ~PageRun();

  /// What is printed from here on belongs to the block at this line.
  void begin_block(int line);
  /// What the block printed has to fit; else the test fails, naming the line of `pattern`.
  void expect_output(int line, std::string_view pattern);

  /// `run` has to throw an Error whose text has `part` in it.
  template <class Error, class Run>
  void expect_throw(int line, std::string_view part, Run&& run) {
    try {
      run();
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(part), std::string::npos) << place(line) << " says: " << text;
      return;
    } catch (const std::exception& error) {
      ADD_FAILURE() << place(line) << " throws something else: " << error.what();
      return;
    }
    ADD_FAILURE() << place(line) << " throws nothing";
  }

 private:
  [[nodiscard]] std::string place(int line) const { return page_ + ":" + std::to_string(line); }
  [[nodiscard]] std::string read_output();

  std::string page_;
  TemporaryFolder folder_;
  std::filesystem::path before_;
  int output_ = -1;  // the file that standard output goes to
  int kept_ = -1;    // where it went
  int block_ = 0;
};

}  // namespace hearth::docs
