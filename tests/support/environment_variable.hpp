// Sets or empties a variable of the environment for one test, and restores it at the end.
// Threads: while no other thread reads or writes the environment, so between two runtimes.
#pragma once

#include <cstdlib>
#include <string>
#include <utility>

namespace hearth::testing {

class EnvironmentVariable final {
 public:
  EnvironmentVariable(std::string name, const std::string& value) : name_(std::move(name)) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): as above
    if (const char* const was = std::getenv(name_.c_str())) {
      before_ = was;
    }
    set(value);
  }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;
  ~EnvironmentVariable() { set(before_); }

 private:
  void set(const std::string& value) const {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): as above
    static_cast<void>(value.empty() ? unsetenv(name_.c_str())
                                    : setenv(name_.c_str(), value.c_str(), 1));
  }

  std::string name_;
  std::string before_;  ///< Empty: it was not set.
};

}  // namespace hearth::testing
