#include "program.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace hearth::testing {

Program::Program(const std::string& name,
                 const std::vector<std::string>& arguments,
                 std::int64_t address_bytes) {
  const std::string path = std::string(HEARTH_EXAMPLES_FOLDER) + "/" + name;
  std::vector<std::string> words{path};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) {
    throw std::runtime_error("no pipe");
  }
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    if (address_bytes > 0) {
      const rlimit limit{.rlim_cur = static_cast<rlim_t>(address_bytes),
                         .rlim_max = static_cast<rlim_t>(address_bytes)};
      ::setrlimit(RLIMIT_AS, &limit);
    }
    ::execv(path.c_str(), argv.data());
    std::_Exit(127);
  }
  ::close(ends[1]);
  output_ = ends[0];
}

Program::~Program() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }
  ::close(output_);
}

void Program::close_output() {
  ::close(std::exchange(output_, -1));
}

bool Program::read_some() {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::read(output_, buffer.data(), buffer.size());
  if (got <= 0) {
    return false;
  }
  text_.append(buffer.data(), static_cast<std::size_t>(got));
  return true;
}

bool Program::wait_for(const std::string& text) {
  while (text_.find(text) == std::string::npos) {
    if (!read_some()) {
      return false;
    }
  }
  return true;
}

void Program::send(int signal) const {
  ::kill(process_, signal);
}

Outcome Program::finish() {
  while (read_some()) {
  }
  int status = 0;
  ::waitpid(std::exchange(process_, -1), &status, 0);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          .out = std::move(text_)};
}

Outcome run(const std::string& name,
            const std::vector<std::string>& arguments,
            std::int64_t address_bytes) {
  return Program(name, arguments, address_bytes).finish();
}

}  // namespace hearth::testing
