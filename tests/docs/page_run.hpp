// Support of a page's generated program while it runs: its output, and the errors that the page
// promises. The page runs in its own empty folder. Owned by a test. Threads: the test's.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/base/temporary_folder.hpp"

namespace hearth::docs {

/// Whether the lines of `text` match those of `pattern`, in which `…` stands for any characters of
/// a line, and alone on a line for any lines.
[[nodiscard]] bool fits(std::string_view text, std::string_view pattern);

class PageRun final {
 public:
  explicit PageRun(std::string page);
  PageRun(const PageRun&) = delete;
  PageRun& operator=(const PageRun&) = delete;
  ~PageRun();

  /// Attributes the following output to the block at this line.
  void begin_block(int line);
  /// Fails the test, naming the line of `pattern`, unless the block's output matches it.
  void expect_output(int line, std::string_view pattern);

  /// Fails the test unless `run` throws an Error whose text contains `part`.
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
  int output_ = -1;  // the file that receives standard output
  int kept_ = -1;    // the former standard output
  int block_ = 0;
};

}  // namespace hearth::docs
