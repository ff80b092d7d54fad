#include "remote.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <istream>
#include <memory>
#include <ostream>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_device.hpp"
#include "check.hpp"
#include "operands.hpp"
#include "problem.hpp"

extern char** environ;  // NOLINT: of the system

namespace hearth::bench {
namespace {

Error system_error(const std::string& what) {
  return {.code = ErrorCode::io_error, .text = what + ": " + std::strerror(errno)};
}

/// A row with its operands, which are made at its first request and dropped at another row's.
class ServedRow final {
 public:
  ServedRow(BenchDevice& device, Heat heat) : device_(device), heat_(heat) {}

  Result<detail::Sample> sample(std::size_t place,
                                std::string_view problem,
                                std::int32_t run_count) {
    if (operands_ == nullptr || place_ != place) {
      operands_.reset();
      HEARTH_TRY(problems_, parse_problems(problem));
      HEARTH_TRY(operands_, Operands::make(device_, problems_[0], heat_));
      place_ = place;
      const detail::Candidate rule{};
      HEARTH_TRY(const std::vector<Checked> checked,
                 check_candidates(device_, *operands_, problems_[0], {&rule, 1}));
      if (!checked[0].is_right) {
        return Error{.code = ErrorCode::kernel_failed, .text = "WRONG: " + checked[0].text};
      }
    }
    return device_.sample([this](std::size_t i) { return operands_->call(i); },
                          detail::kRulePick,
                          run_count,
                          operands_->rotated_bytes());
  }

 private:
  BenchDevice& device_;
  Heat heat_;
  std::size_t place_ = 0;
  std::vector<Problem> problems_;
  std::unique_ptr<Operands> operands_;
};

}  // namespace

std::string sample_line(const detail::Sample& sample) {
  return fmt::format("{} {} {} {} {} {} {} {}",
                     sample.wall.count(),
                     sample.cpu.count(),
                     sample.run_count,
                     sample.involuntary_switches,
                     sample.pressure,
                     sample.steal,
                     static_cast<int>(sample.source),
                     sample.rotated_bytes);
}

Result<detail::Sample> parse_sample_line(const std::string& line) {
  if (line.starts_with("error ")) {
    return Error{.code = ErrorCode::kernel_failed, .text = line.substr(6)};
  }
  std::istringstream words(line);
  std::int64_t wall = 0;
  std::int64_t cpu = 0;
  int source = 0;
  detail::Sample sample;
  words >> wall >> cpu >> sample.run_count >> sample.involuntary_switches >> sample.pressure >>
      sample.steal >> source >> sample.rotated_bytes;
  if (!words || source < 0 || source > static_cast<int>(detail::SampleSource::device)) {
    return Error{.code = ErrorCode::bad_format, .text = fmt::format("no sample: '{}'", line)};
  }
  sample.wall = std::chrono::nanoseconds(wall);
  sample.cpu = std::chrono::nanoseconds(cpu);
  sample.source = static_cast<detail::SampleSource>(source);
  return sample;
}

int serve_samples(const CommandLine& line,
                  const std::vector<SelectedRow>& rows,
                  std::istream& in,
                  std::ostream& out) {
  const Result<double> cores = line.number("--cores");
  if (!cores.has_value()) {
    return refuse("run", cores.error().text, Exit::usage);
  }
  const auto device = BenchDevice::open(line.text("--device"), static_cast<int>(cores.value()));
  if (!device.has_value()) {
    return refuse("run", device.error().text, Exit::usage);
  }
  for (const SelectedRow& each : rows) {
    out << "row " << each.suite << '/' << each.row.name << '\n';
  }
  out << "ready" << std::endl;
  ServedRow served(*device.value(), line.text("--operands") == "hot" ? Heat::hot : Heat::rotated);
  std::size_t place = 0;
  std::int32_t run_count = 0;
  while (in >> place >> run_count) {
    if (place >= rows.size() || run_count < 1) {
      out << "error no such row" << std::endl;
      continue;
    }
    const Result<detail::Sample> sample = served.sample(place, rows[place].row.problem, run_count);
    out << (sample.has_value() ? sample_line(sample.value()) : "error " + sample.error().text)
        << std::endl;
  }
  return static_cast<int>(Exit::fine);
}

Result<std::unique_ptr<RemoteProgram>> RemoteProgram::start(
    const std::string& program, const std::vector<std::string>& arguments) {
  std::unique_ptr<RemoteProgram> made(new RemoteProgram);
  made->program_ = program;
  std::array<int, 2> requests{};
  std::array<int, 2> answers{};
  if (::pipe2(requests.data(), O_CLOEXEC) != 0 || ::pipe2(answers.data(), O_CLOEXEC) != 0) {
    return system_error("pipe");
  }
  made->to_ = requests[1];
  made->from_ = answers[0];
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, requests[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const int problem =
      ::posix_spawnp(&made->process_, program.c_str(), &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(requests[0]);
  ::close(answers[1]);
  if (problem != 0) {
    made->process_ = -1;
    errno = problem;
    return system_error(program);
  }
  std::signal(SIGPIPE, SIG_IGN);  // a program that ends is an error of the next request
  for (;;) {
    HEARTH_TRY(const std::string line, made->read_line());
    if (line == "ready") {
      return made;
    }
    if (!line.starts_with("row ")) {
      return Error{.code = ErrorCode::bad_format,
                   .text = fmt::format("{} serves no samples: '{}'", program, line)};
    }
    made->labels_.push_back(line.substr(4));
  }
}

RemoteProgram::~RemoteProgram() {
  if (to_ >= 0) {
    ::close(to_);  // its input ends, so it ends
  }
  if (from_ >= 0) {
    ::close(from_);
  }
  if (process_ > 0) {
    int status = 0;
    ::waitpid(process_, &status, 0);
  }
}

Result<std::string> RemoteProgram::read_line() {
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    std::array<char, 512> bytes{};
    const ssize_t size = ::read(from_, bytes.data(), bytes.size());
    if (size > 0) {
      buffer_.append(bytes.data(), static_cast<std::size_t>(size));
    } else if (size == 0 || errno != EINTR) {
      return Error{.code = ErrorCode::io_error,
                   .text = fmt::format("{} ended without an answer", program_)};
    }
  }
}

Result<detail::Sample> RemoteProgram::sample(std::size_t place, std::int32_t run_count) {
  const std::string request = fmt::format("{} {}\n", place, run_count);
  if (::write(to_, request.data(), request.size()) != static_cast<ssize_t>(request.size())) {
    return system_error(program_);
  }
  HEARTH_TRY(const std::string line, read_line());
  return parse_sample_line(line);
}

Side RemoteProgram::side(std::size_t place) {
  return [this, place](std::int32_t run_count) { return sample(place, run_count); };
}

}  // namespace hearth::bench
