// Runs one of the example programs and keeps its output.
// Threads: the test's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hearth::testing {

/// The end of a program and its output.
struct Outcome {
  int exit_code = -1;  ///< -1: ended by a signal.
  int signal = 0;      ///< The signal that ended it; 0: none.
  std::string out;     ///< Standard output and errors.
};

/// A running program, with its output in a pipe.
class Program final {
 public:
  /// Starts `name`, one of examples/ or of bench/; errors go to the pipe of the output.
  /// `address_bytes`: the limit of the address space (ulimit -v); 0: no limit.
  Program(const std::string& name,
          const std::vector<std::string>& arguments,
          std::int64_t address_bytes = 0);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// Reads until the output holds `text`; returns false if the output ends before.
  [[nodiscard]] bool wait_for(const std::string& text);
  /// What wait_for() has read and forget_output() has not dropped.
  [[nodiscard]] const std::string& output() const noexcept { return text_; }
  /// Makes later wait_for() calls ignore the output so far.
  void forget_output() { text_.clear(); }
  void send(int signal) const;
  /// Closes the pipe, as `head` does: later output of the program is lost.
  void close_output();
  /// Reads the remaining output and waits for the end.
  [[nodiscard]] Outcome finish();

 private:
  [[nodiscard]] bool read_some();

  pid_t process_ = -1;
  int output_ = -1;
  std::string text_;
};

[[nodiscard]] Outcome run(const std::string& name,
                          const std::vector<std::string>& arguments = {},
                          std::int64_t address_bytes = 0);

}  // namespace hearth::testing
