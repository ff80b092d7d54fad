// The search behind check(): one execution after another, and their memory.
// Private to model.cpp (the search) and model_memory.cpp (the memory). Threads: one.
// Invariant: decisions form the path of the last execution; the next execution repeats this path up
// to the decision that advance() changed.
#pragma once

#include "model.hpp"

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/base/fibers/fiber.hpp"
#include "view.hpp"

namespace hearth::model {

using detail::Step;
using detail::StepArguments;
using detail::StepResult;

using ThreadIndex = std::size_t;  // 0 is the setup, then the program's threads
using ThreadSet = std::uint8_t;   // a bit for each
inline constexpr ThreadIndex kSetup = 0;

inline ThreadSet bit(ThreadIndex thread) {
  return static_cast<ThreadSet>(1U << thread);
}

struct Store {
  std::uint64_t value = 0;
  View carried;  // the view that an acquiring thread obtains
};

/// Mixes a number into a hash.
inline void mix(std::uint64_t& hash, std::uint64_t number) {
  hash = (hash ^ number) * 0x9e3779b97f4a7c15U;
  hash ^= hash >> 32U;
}
inline void mix(std::uint64_t& hash, const View& view) {
  for (const std::uint16_t time : view.times) {
    mix(hash, time);
  }
  for (const std::uint16_t oldest : view.oldest) {
    mix(hash, oldest);
  }
}

struct Word {
  std::vector<Store> stores;
  std::uint64_t hash = 0;  // of the stores
  bool no_acquire = false;
  bool no_release = false;
  bool is_split = false;
};

/// The threads that accessed an atomic in any execution so far. A step on an atomic that no other
/// thread accesses needs no decision.
struct Touch {
  ThreadSet accessors = 0;
  ThreadSet writers = 0;
};

/// The last accesses to one piece of plain memory, as stamps of the threads' times.
struct Plain {
  ThreadIndex writer = kSetup;
  std::uint16_t written = 0;
  std::array<std::uint16_t, kMaxThreads> read{};
};

struct Thread {
  std::unique_ptr<Fiber> fiber;
  const std::function<void()>* body = nullptr;
  View view;
  Location location = 0;  // the atomic of its next step
  StepArguments pending;
  StepResult result;
  bool is_done = true;
  bool is_asleep = false;
  std::uint64_t history = 0;  // a hash of all results of its steps, which determine its next step
};

struct Logged {
  ThreadIndex thread = kSetup;
  Location location = 0;
  StepArguments arguments;
  StepResult result;
  bool is_old = false;  // a load that saw an older store
};

/// A branch of the search: which thread runs, or which store a load sees.
struct Decision {
  std::array<std::uint8_t, 32> options{};
  std::size_t count = 0;
  std::size_t taken = 0;

  void add(std::size_t option) { options.at(count++) = static_cast<std::uint8_t>(option); }
  [[nodiscard]] std::size_t option() const { return options.at(taken); }
};

/// Thrown by require() outside the threads.
class Refused final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Checker {
 public:
  Checker(const std::function<Program()>& make, const CheckOptions& options);
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;
  ~Checker();

  CheckResult run();

  Location add_location(const void* atomic, std::uint64_t initial);
  StepResult perform(Location location, const StepArguments& arguments);
  void access(const void* memory, bool writes);
  [[noreturn]] void fail(std::string text);

 private:
  enum class Pass : std::uint8_t { complete, learned, stopped };
  Pass run_pass();
  void run_execution();
  void start_threads(const Program& program);
  void step_threads();
  [[nodiscard]] ThreadIndex choose(ThreadSet enabled);
  [[nodiscard]] bool is_local(const Thread& thread, ThreadIndex index) const;
  void do_step(ThreadIndex index);
  void resume(ThreadIndex index);
  bool wake_by_deadline();
  [[nodiscard]] std::size_t seen_store(Word& word, Thread& thread, const StepArguments& arguments);
  StepResult apply(Location location, const StepArguments& arguments, ThreadIndex index);
  void put_to_sleep_or_not(ThreadIndex index);
  [[nodiscard]] std::uint64_t placeless(std::uint64_t value) const;
  void remember(Thread& thread, const StepResult& result) const;
  [[nodiscard]] std::uint64_t state() const;
  [[nodiscard]] bool has_been_here();
  [[nodiscard]] std::size_t decide(const Decision& fresh);
  [[nodiscard]] bool advance();
  void register_failure(std::string text);
  [[nodiscard]] std::string story(const std::string& text) const;
  void end_fibers();

  [[nodiscard]] static bool is_independent(const Thread& a, const Thread& b) {
    return a.location != b.location ||
           (a.pending.kind == Step::load && b.pending.kind == Step::load);
  }

  const std::function<Program()>& make_;
  CheckOptions options_;
  Checker* outer_;
  CheckResult result_;

  // state of all executions
  std::array<Thread, kMaxThreads> threads_;
  std::vector<Decision> decisions_;
  std::array<Touch, kMaxLocations> assumed_{};
  std::array<Touch, kMaxLocations> touched_{};
  /// States already visited, and the threads that did not continue from there.
  std::unordered_map<std::uint64_t, ThreadSet> met_;
  bool has_learned_ = false;
  bool is_quitting_ = false;

  // state of one execution
  std::uintptr_t first_atomic_ = 0;
  std::vector<Word> words_;
  std::unordered_map<const void*, Plain> plain_;
  std::vector<Logged> log_;
  std::size_t thread_count_ = 0;
  ThreadIndex running_ = kSetup;
  std::size_t next_decision_ = 0;
  ThreadSet sleep_set_ = 0;
  bool is_exploring_ = true;
  std::optional<std::string> failure_;
  std::unique_ptr<Program> program_;
};

}  // namespace hearth::model
