#include "model.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "checker.hpp"

namespace hearth::model {
namespace {

Checker*& current_checker() {
  static Checker* checker = nullptr;
  return checker;
}

const char* name(Step kind) {
  static constexpr std::array kNames{
      "load", "store", "exchange", "add", "and", "or", "compare", "sleep", "wake"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace

Checker::Checker(const std::function<Program()>& make, const CheckOptions& options)
    : make_(make), options_(options), outer_(std::exchange(current_checker(), this)) {}

Checker::~Checker() {
  end_fibers();
  program_.reset();  // its destructors use atomics
  current_checker() = outer_;
}

// ---- the search ----

CheckResult Checker::run() {
  for (;;) {
    assumed_ = touched_;
    has_learned_ = false;
    decisions_.clear();
    met_.clear();
    result_ = CheckResult{};
    const Pass pass = run_pass();
    if (pass == Pass::learned) {
      continue;  // an atomic taken for private is shared: repeat with that knowledge
    }
    result_.is_complete = pass == Pass::complete;
    return result_;
  }
}

Checker::Pass Checker::run_pass() {
  while (result_.executions < options_.max_executions) {
    run_execution();
    ++result_.executions;
    if (failure_) {
      result_.counterexample = story(*failure_);
      return Pass::stopped;
    }
    if (has_learned_) {
      return Pass::learned;
    }
    if (!advance()) {
      return Pass::complete;
    }
  }
  return Pass::stopped;
}

bool Checker::advance() {
  while (!decisions_.empty() && decisions_.back().taken + 1 == decisions_.back().count) {
    decisions_.pop_back();
  }
  if (decisions_.empty()) {
    return false;
  }
  ++decisions_.back().taken;
  return true;
}

std::size_t Checker::decide(const Decision& fresh) {
  if (next_decision_ == decisions_.size()) {
    decisions_.push_back(fresh);
  }
  return decisions_[next_decision_++].option();
}

void Checker::run_execution() {
  words_.clear();
  plain_.clear();
  log_.clear();
  next_decision_ = 0;
  sleep_set_ = 0;
  is_exploring_ = true;
  running_ = kSetup;
  threads_[kSetup].view = View{};
  program_ = std::make_unique<Program>(make_());
  result_.locations = words_.size();
  start_threads(*program_);
  step_threads();
  if (failure_) {
    return;
  }
  if (!is_exploring_) {
    ++result_.redundant;
  }
  for (ThreadIndex i = 1; i <= thread_count_; ++i) {
    View& view = threads_[i].view;
    ++view.times[i];  // its last plain accesses too
    threads_[kSetup].view.join(view);
  }
  if (program_->at_end) {
    try {
      program_->at_end();
    } catch (const Refused&) {
      return;  // failure_ has the text
    }
  }
  if (!failure_) {
    program_.reset();
  }
}

void Checker::start_threads(const Program& program) {
  thread_count_ = program.threads.size();
  if (thread_count_ + 1 > kMaxThreads) {
    fail("too many threads for the checker");
  }
  ++threads_[kSetup].view.times[kSetup];
  for (ThreadIndex i = 1; i <= thread_count_; ++i) {
    Thread& thread = threads_[i];
    thread.body = &program.threads[i - 1];
    thread.view = threads_[kSetup].view;
    thread.is_done = false;
    thread.is_asleep = false;
    thread.history = 0;
    if (!thread.fiber) {
      thread.fiber = std::make_unique<Fiber>([this, &thread] {
        while (!is_quitting_) {
          (*thread.body)();
          thread.is_done = true;
          thread.fiber->suspend();
        }
      });
    }
    resume(i);
  }
}

void Checker::resume(ThreadIndex index) {
  const ThreadIndex before = std::exchange(running_, index);
  threads_[index].fiber->resume();
  running_ = before;
}

void Checker::step_threads() {
  while (!failure_) {
    ThreadSet enabled = 0;
    bool all_done = true;
    for (ThreadIndex i = 1; i <= thread_count_; ++i) {
      all_done = all_done && threads_[i].is_done;
      if (!threads_[i].is_done && !threads_[i].is_asleep) {
        enabled = static_cast<ThreadSet>(enabled | bit(i));
      }
    }
    if (all_done) {
      return;
    }
    if (enabled == 0) {
      if (!wake_by_deadline()) {
        register_failure("a lost wake: nobody can go on, and somebody sleeps");
      }
      continue;
    }
    if (log_.size() > static_cast<std::size_t>(options_.max_steps)) {
      register_failure("more steps than an execution may have: somebody polls without end");
      return;
    }
    const ThreadIndex next = choose(enabled);
    do_step(next);
  }
}

bool Checker::wake_by_deadline() {
  for (ThreadIndex i = 1; i <= thread_count_; ++i) {
    Thread& thread = threads_[i];
    if (thread.is_asleep && thread.pending.operand != 0) {
      thread.is_asleep = false;
      thread.result.has_changed = true;  // the deadline
      remember(thread, thread.result);
      resume(i);
      return true;
    }
  }
  return false;
}

bool Checker::is_local(const Thread& thread, ThreadIndex index) const {
  const Touch& touch = assumed_.at(thread.location);
  const ThreadSet others = thread.pending.kind == Step::load ? touch.writers : touch.accessors;
  return (others & ~bit(index)) == 0;
}

ThreadIndex Checker::choose(ThreadSet enabled) {
  for (ThreadIndex i = 1; i <= thread_count_; ++i) {
    if ((enabled & bit(i)) != 0 && options_.skips_equal_ones && is_local(threads_[i], i)) {
      return i;
    }
  }
  Decision decision;
  for (ThreadIndex i = 1; i <= thread_count_; ++i) {
    if ((enabled & bit(i)) != 0 && (sleep_set_ & bit(i)) == 0) {
      decision.add(i);
    }
  }
  if (decision.count == 0 || (is_exploring_ && has_been_here())) {
    is_exploring_ = false;  // from here on it repeats an earlier execution
  }
  if (!is_exploring_) {
    ThreadIndex first = 1;
    while ((enabled & bit(first)) == 0) {
      ++first;
    }
    return first;
  }
  const ThreadIndex next = decide(decision);
  // Threads that went first at this place need not go again until a dependent step occurs.
  const Decision& known = decisions_[next_decision_ - 1];
  ThreadSet asleep = sleep_set_;
  for (std::size_t i = 0; i < known.taken; ++i) {
    asleep = static_cast<ThreadSet>(asleep | bit(known.options.at(i)));
  }
  sleep_set_ = 0;
  for (ThreadIndex i = 1; i <= thread_count_; ++i) {
    if (options_.skips_equal_ones && (asleep & bit(i)) != 0 && i != next &&
        is_independent(threads_[i], threads_[next])) {
      sleep_set_ = static_cast<ThreadSet>(sleep_set_ | bit(i));
    }
  }
  return next;
}

// Each execution builds the program anew, at other addresses. Values that point into it count from
// its first atomic, so that exactly the equal states have equal hashes.
std::uint64_t Checker::placeless(std::uint64_t value) const {
  constexpr std::uint64_t kReach = 1U << 16U;
  constexpr std::uint64_t kTag = std::uint64_t{1} << 62U;
  const std::uint64_t distance = value - first_atomic_ + kReach;
  return distance < 2 * kReach ? kTag + distance : value;
}

void Checker::remember(Thread& thread, const StepResult& result) const {
  mix(thread.history, placeless(result.value) * 2 + (result.has_changed ? 1 : 0));
}

std::uint64_t Checker::state() const {
  std::uint64_t hash = 0;
  for (ThreadIndex i = 1; i <= thread_count_; ++i) {
    const Thread& thread = threads_[i];
    mix(hash, thread.history);
    mix(hash, thread.view);
    mix(hash, thread.is_done ? 1 : thread.is_asleep ? 2 : 3);
  }
  for (const Word& word : words_) {
    mix(hash, word.hash);
  }
  return hash;
}

// Threads whose steps returned equal results over equal memory continue equally. An execution never
// returns to its own state, so a visited state has been explored to its end, except for the threads
// that were asleep then.
bool Checker::has_been_here() {
  if (next_decision_ < decisions_.size() || !options_.skips_equal_ones) {
    return false;  // on the path to the next new decision
  }
  const auto [met, is_new] = met_.try_emplace(state(), sleep_set_);
  if (is_new) {
    return false;
  }
  if ((met->second & ~sleep_set_) == 0) {
    return true;
  }
  met->second = static_cast<ThreadSet>(met->second & sleep_set_);
  return false;
}

void Checker::do_step(ThreadIndex index) {
  Thread& thread = threads_[index];
  const Location location = thread.location;
  if (thread.pending.kind == Step::sleep) {
    put_to_sleep_or_not(index);
    return;
  }
  thread.result = apply(location, thread.pending, index);
  if (thread.pending.kind == Step::wake) {
    for (ThreadIndex i = 1; i <= thread_count_; ++i) {
      Thread& sleeper = threads_[i];
      if (sleeper.is_asleep && sleeper.location == location) {
        sleeper.is_asleep = false;
        // A woken thread sees the word as its waker did; the futex orders no other memory.
        std::uint16_t& oldest = sleeper.view.oldest.at(location);
        oldest = std::max(oldest, thread.view.oldest.at(location));
        resume(i);
        break;
      }
    }
  }
  if (!failure_) {
    resume(index);
  }
}

void Checker::put_to_sleep_or_not(ThreadIndex index) {
  Thread& thread = threads_[index];
  // The kernel reads the word itself, not the thread's view of it.
  const std::vector<Store>& stores = words_[thread.location].stores;
  const std::uint64_t value = stores.back().value;
  log_.push_back({index, thread.location, thread.pending, {value, false}, false});
  ++result_.steps;
  ++thread.view.times[index];
  thread.result = StepResult{};
  remember(thread, {value, false});
  if (value == thread.pending.expected) {
    thread.is_asleep = true;
    return;
  }
  thread.view.oldest.at(thread.location) = static_cast<std::uint16_t>(stores.size() - 1);
  resume(index);
}

// ---- failures ----

void Checker::register_failure(std::string text) {
  if (!failure_) {
    failure_ = std::move(text);
  }
}

void Checker::fail(std::string text) {
  register_failure(std::move(text));
  if (running_ == kSetup) {
    throw Refused(*failure_);
  }
  for (;;) {
    threads_[running_].fiber->suspend();
  }
}

std::string Checker::story(const std::string& text) const {
  constexpr std::size_t kShown = 100;
  std::string all = text + "\n";
  for (std::size_t i = log_.size() - std::min(log_.size(), kShown); i < log_.size(); ++i) {
    const Logged& step = log_[i];
    all += "  thread " + std::to_string(step.thread) + ": atomic " + std::to_string(step.location) +
           " " + name(step.arguments.kind);
    if (step.arguments.kind != Step::load && step.arguments.kind != Step::wake) {
      all += " " + std::to_string(step.arguments.operand);
    }
    if (step.arguments.kind == Step::compare) {
      all += step.result.has_changed ? " for " : " not for ";
      all += std::to_string(step.arguments.expected);
    }
    all += " saw " + std::to_string(step.result.value) + (step.is_old ? " (old)" : "") + "\n";
  }
  return all;
}

void Checker::end_fibers() {
  is_quitting_ = true;
  bool has_stopped = false;
  for (ThreadIndex i = 1; i < kMaxThreads; ++i) {
    Thread& thread = threads_[i];
    if (!thread.fiber) {
      continue;
    }
    if (thread.is_done) {
      resume(i);
    } else {
      // Stopped in the middle of a counterexample: its stack and the objects on it stay alive.
      thread.fiber.release()->keep_reachable();
      has_stopped = true;
    }
  }
  if (has_stopped) {
    // Never destroyed: its destructors would use atomics without a checker.
    static std::vector<std::unique_ptr<Program>>* const stopped =
        std::make_unique<std::vector<std::unique_ptr<Program>>>().release();
    stopped->push_back(std::move(program_));
  }
}

CheckResult check(const std::function<Program()>& make, const CheckOptions& options) {
  Checker checker(make, options);
  return checker.run();
}

void require(bool condition, const char* text) {
  if (!condition) {
    current_checker()->fail(text);
  }
}

Location detail::add_location(const void* atomic, std::uint64_t initial) {
  return current_checker()->add_location(atomic, initial);
}
StepResult detail::perform(Location location, const StepArguments& arguments) {
  return current_checker()->perform(location, arguments);
}
void detail::access(const void* memory, bool writes) {
  current_checker()->access(memory, writes);
}

}  // namespace hearth::model
