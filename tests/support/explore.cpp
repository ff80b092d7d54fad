#include "explore.hpp"

#include <hearth/runtime/base/error.hpp>
#include <hearth/runtime/base/schedule_search.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

namespace hearth::testing {
namespace {

constexpr const char* kHeader = "hearth schedule 1";

/// The schedule under way, and the data of its replay file.
struct Run {
  std::string name;
  std::string strategy;
  std::string file;
  bool preempts_at_locks = true;
  std::vector<ThreadNumber> choices = {};
};

// Run-length coded: "0*5 2 1*3".
std::string coded(const std::vector<ThreadNumber>& choices) {
  std::ostringstream text;
  for (std::size_t i = 0; i < choices.size();) {
    std::size_t end = i;
    while (end < choices.size() && choices[end] == choices[i]) {
      ++end;
    }
    text << (i == 0 ? "" : " ") << choices[i];
    if (end - i > 1) {
      text << '*' << end - i;
    }
    i = end;
  }
  return text.str();
}

std::vector<ThreadNumber> decoded(const std::string& text) {
  std::vector<ThreadNumber> choices;
  std::istringstream in(text);
  for (std::string piece; in >> piece;) {
    const std::size_t star = piece.find('*');
    const std::size_t count = star == std::string::npos ? 1 : std::stoul(piece.substr(star + 1));
    choices.insert(choices.end(), count, static_cast<ThreadNumber>(std::stoul(piece)));
  }
  return choices;
}

std::string one_line(std::string text) {
  for (char& letter : text) {
    letter = letter == '\n' ? ' ' : letter;
  }
  return text;
}

void write(const Run& run, const std::string& failure) {
  std::filesystem::create_directories(std::filesystem::path(run.file).parent_path());
  std::ofstream out(run.file, std::ios::trunc);
  out << kHeader << "\nprogram " << run.name << "\nfound by " << run.strategy << "\nfailure "
      << one_line(failure) << "\nlocks " << (run.preempts_at_locks ? 1 : 0) << "\nchoices "
      << coded(run.choices) << "\n";
  std::fprintf(stderr,
               "%s: %s (%s)\nto run it again: EXPLORE_REPLAY=%s and the same test\n",
               run.name.c_str(),
               failure.c_str(),
               run.strategy.c_str(),
               run.file.c_str());
}

/// While it lives, an abort (a failed assert, std::terminate) writes the schedule under way first.
class AbortGuard {
 public:
  explicit AbortGuard(const Run& run) : outer_run_(std::exchange(current(), &run)) {
    outer_handler_ = std::signal(SIGABRT, &on_abort);
  }
  AbortGuard(const AbortGuard&) = delete;
  AbortGuard& operator=(const AbortGuard&) = delete;
  ~AbortGuard() {
    std::signal(SIGABRT, outer_handler_);
    current() = outer_run_;
  }

 private:
  static const Run*& current() {
    static const Run* run = nullptr;
    return run;
  }
  // abort() raises the signal in ordinary code, so the handler may write files.
  static void on_abort(int /*signal*/) {
    std::signal(SIGABRT, SIG_DFL);
    write(*current(), "aborted");
  }

  const Run* outer_run_;
  void (*outer_handler_)(int);
};

std::string file_of(const std::string& name) {
  return std::string(HEARTH_SCHEDULE_FOLDER) + "/" + name + ".schedule";
}

bool has_test_failed() {
  return ::testing::UnitTest::GetInstance()->current_test_info() != nullptr &&
         ::testing::Test::HasFailure();
}

struct Outcome {
  std::uint64_t steps = 0;
  std::optional<std::string> failure = {};
};

Outcome run_once(ScheduleFn schedule,
                 Run& run,
                 const ExploreOptions& options,
                 const ExploredProgram& program) {
  run.choices.clear();
  ManualExecutor executor(
      ScheduleFn([&run, schedule = std::move(schedule)](std::span<const ThreadNumber> runnable,
                                                        ThreadNumber previous) mutable {
        const std::size_t index = schedule(runnable, previous);
        run.choices.push_back(runnable[index]);
        return index;
      }),
      {.max_steps = options.max_steps, .preempts_at_locks = run.preempts_at_locks});
  const AbortGuard guard(run);
  const bool had_failed = has_test_failed();
  Outcome outcome;
  try {
    executor.run([&] { program(executor); });
    if (!had_failed && has_test_failed()) {
      outcome.failure = "an expectation failed";
    }
  } catch (const Exception& error) {
    outcome.failure = error.error().text;
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  outcome.steps = executor.step_count();
  return outcome;
}

struct ReplayFile {
  std::string program;
  bool preempts_at_locks = true;
  std::vector<ThreadNumber> choices;
};

ReplayFile read(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  if (!std::getline(in, line) || line != kHeader) {
    throw_error(Error{.code = ErrorCode::bad_format, .text = file + " is no replay file"});
  }
  ReplayFile found;
  while (std::getline(in, line)) {
    const std::size_t space = line.find(' ');
    const std::string key = line.substr(0, space);
    const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
    if (key == "program") {
      found.program = value;
    } else if (key == "locks") {
      found.preempts_at_locks = value == "1";
    } else if (key == "choices") {
      found.choices = decoded(value);
    }
  }
  return found;
}

Outcome replay_file(const ExploreOptions& options,
                    const std::string& file,
                    const ExploredProgram& program) {
  ReplayFile found = read(file);
  if (found.program != options.name) {
    throw_error(
        Error{.code = ErrorCode::bad_format,
              .text = file + " is a schedule of " + found.program + ", not of " + options.name});
  }
  Run run{.name = options.name,
          .strategy = "replay",
          .file = file,
          .preempts_at_locks = found.preempts_at_locks};
  return run_once(replay_schedule(std::move(found.choices)), run, options, program);
}

const char* environment(const char* variable) {
  return std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): tests read it on one thread
}

}  // namespace

Exploration explore(const ExploreOptions& options, const ExploredProgram& program) {
  if (const char* wanted = environment("EXPLORE_REPLAY");
      wanted != nullptr && read(wanted).program == options.name) {
    const Outcome outcome = replay_file(options, wanted, program);
    std::fprintf(stderr,
                 "%s: replayed %s: %s\n",
                 options.name.c_str(),
                 wanted,
                 outcome.failure.value_or("no failure").c_str());
    Exploration one{.schedules = 1, .steps = outcome.steps};
    if (outcome.failure) {
      one.failure = FoundFailure{.text = *outcome.failure, .replay_file = wanted, .schedule = 1};
    }
    return one;
  }
  Run run{.name = options.name,
          .strategy = {},
          .file = file_of(options.name),
          .preempts_at_locks = options.preempts_at_locks};
  Exploration result;
  ScheduleSearch search(options.max_preemptions);
  std::uint64_t longest = 1;  // over all schedules so far: the range of PCT's priority changes
  while (result.schedules < options.schedules) {
    const std::uint64_t seed = options.first_seed + result.schedules;
    ScheduleFn schedule;
    switch (options.strategy) {
      case Strategy::random:
        run.strategy = "random, seed " + std::to_string(seed);
        schedule = random_schedule(seed);
        break;
      case Strategy::pct:
        run.strategy = "pct, seed " + std::to_string(seed) + ", depth " +
                       std::to_string(options.depth) + ", steps " + std::to_string(longest);
        schedule = pct_schedule({.seed = seed, .depth = options.depth, .step_count = longest});
        break;
      case Strategy::exhaustive:
        run.strategy = "exhaustive, at most " + std::to_string(options.max_preemptions) +
                       " preemptions, schedule " + std::to_string(result.schedules + 1);
        schedule = search.schedule();
        break;
    }
    const Outcome outcome = run_once(std::move(schedule), run, options, program);
    ++result.schedules;
    result.steps += outcome.steps;
    longest = std::max(longest, outcome.steps);
    if (outcome.failure) {
      write(run, *outcome.failure);
      result.failure = FoundFailure{
          .text = *outcome.failure, .replay_file = run.file, .schedule = result.schedules};
      return result;
    }
    if (options.strategy == Strategy::exhaustive && !search.advance()) {
      result.is_complete = true;
      return result;
    }
  }
  return result;
}

std::optional<std::string> replay(const ExploreOptions& options,
                                  const std::string& file,
                                  const ExploredProgram& program) {
  return replay_file(options, file, program).failure;
}

std::uint64_t schedule_count(std::uint64_t fallback) {
  const char* text = environment("EXPLORE_SCHEDULES");
  return text == nullptr ? fallback : std::stoull(text);
}

void require(bool condition, const std::string& text) {
  if (!condition) {
    throw_error(Error{.text = text});
  }
}

}  // namespace hearth::testing
