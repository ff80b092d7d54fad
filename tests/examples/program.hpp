// Runs one of the example programs and keeps what it printed.
// Threads: the test's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hearth::testing {

/// What a program did.
struct Outcome {
  int exit_code = -1;  ///< -1: ended by a signal.
  int signal = 0;      ///< Which; 0: none.
  std::string out;     ///< What it printed, errors too.
};

/// A program that runs, with its output in a pipe.
class Program final {
 public:
  /// `name` is one of examples/; errors go where the output goes. `address_bytes`: the address
  /// space that it may have (ulimit -v); 0: any.
  Program(const std::string& name,
          const std::vector<std::string>& arguments,
          std::int64_t address_bytes = 0);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  /// Reads on until the output holds `text`; false when it ends before.
  [[nodiscard]] bool wait_for(const std::string& text);
  /// wait_for() looks from here on.
  void forget_output() { text_.clear(); }
  void send(int signal) const;
  /// Closes the pipe, as `head` does: what the program prints from now on nobody gets.
  void close_output();
  /// Reads the rest and waits for the end.
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
