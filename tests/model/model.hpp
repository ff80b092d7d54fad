// A model checker for code without locks: runs a small program of a few threads in every order of
// its atomic steps, with every value that each load may see, and looks for data races, lost wakes
// and what the program itself requires. The threads are fibers; model::Atomics stands for
// std::atomic.
//
// The memory is that of C++ without seq_cst: a load may see any store that is not hidden by one
// that happened before it or that its thread has seen; a read-modify-write sees the last; release
// and acquire carry views along, relaxed ones do not. So stores linger as in store buffers, and
// loads are early as on machines weaker than x86. One thing is left out: two stores of one word
// keep the order in which they were made.
// Threads: one. Invariants: (1) no two executions are equal up to the order of independent steps,
// but for those counted as redundant; (2) a program without a counterexample has none within this
// memory, if is_complete.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace hearth::model {

/// An atomic's number, in the order in which the program made them, from 0.
using Location = std::size_t;

/// What a weakened program does at one of its atomics: for showing that the checker would see it.
enum class Weakening : std::uint8_t {
  no_acquire,  ///< Loads and read-modify-writes acquire nothing.
  no_release,  ///< Stores and read-modify-writes release nothing.
  split,       ///< exchange() is a load and then a store.
};

struct CheckOptions {
  struct At {
    Location location = 0;
    Weakening weakening = Weakening::no_acquire;
  };
  std::vector<At> weakened = {};
  std::uint64_t max_executions = 20'000'000;
  /// Whether executions are left out that can show nothing new. Without, each order of steps is
  /// run.
  bool skips_equal_ones = true;
  int max_steps = 400;  ///< Of one execution: more is a thread that polls without end.
};

/// One execution's state lives in what the functions own.
struct Program {
  std::vector<std::function<void()>> threads;
  std::function<void()> at_end = {};  ///< After all of them.
};

struct CheckResult {
  std::uint64_t executions = 0;
  std::uint64_t redundant = 0;  ///< Of these: equal to an earlier one from some step on.
  std::uint64_t steps = 0;
  bool is_complete = false;
  std::size_t locations = 0;
  std::optional<std::string> counterexample = {};  ///< What is wrong, then the steps to it.
};

/// Runs the program that `make` makes anew for each execution; ends at the first counterexample.
[[nodiscard]] CheckResult check(const std::function<Program()>& make,
                                const CheckOptions& options = {});

/// Inside a program: what must hold. Does not return when it does not.
void require(bool condition, const char* text);
/// A deadline comes when no thread can go on otherwise.
enum class Sleep : std::uint8_t { for_ever, with_deadline };

namespace detail {

/// What happens at an atomic: the kinds that differ for the order of steps.
enum class Step : std::uint8_t {
  load,
  store,
  exchange,
  add,
  bit_and,
  bit_or,
  compare,
  sleep,
  wake
};

struct StepArguments {
  Step kind = Step::load;
  std::uint64_t operand = 0;
  std::uint64_t expected = 0;
  std::memory_order order = std::memory_order_relaxed;
  std::memory_order failure_order = std::memory_order_relaxed;
};
struct StepResult {
  std::uint64_t value = 0;  // what was there
  bool has_changed = false;
};

[[nodiscard]] Location add_location(const void* atomic, std::uint64_t initial);
StepResult perform(Location location, const StepArguments& arguments);
void access(const void* memory, bool writes);

template <class T>
std::uint64_t to_bits(T value) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return std::bit_cast<std::uintptr_t>(value);
  } else {
    return static_cast<std::uint64_t>(value);
  }
}
template <class T>
T from_bits(std::uint64_t bits) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return std::bit_cast<T>(static_cast<std::uintptr_t>(bits));
  } else {
    return static_cast<T>(bits);
  }
}

}  // namespace detail

template <class T>
class Atomic {
 public:
  using Order = std::memory_order;

  Atomic(T initial)  // NOLINT(google-explicit-constructor): as std::atomic's
      : location_(detail::add_location(this, detail::to_bits(initial))) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[nodiscard]] T load(Order order) const {
    return run({.kind = detail::Step::load, .order = order});
  }
  void store(T value, Order order) {
    run({.kind = detail::Step::store, .operand = detail::to_bits(value), .order = order});
  }
  T exchange(T value, Order order) {
    return run({.kind = detail::Step::exchange, .operand = detail::to_bits(value), .order = order});
  }
  T fetch_add(T value, Order order) {
    return run({.kind = detail::Step::add, .operand = detail::to_bits(value), .order = order});
  }
  T fetch_sub(T value, Order order) {
    return run({.kind = detail::Step::add, .operand = 0 - detail::to_bits(value), .order = order});
  }
  T fetch_and(T value, Order order) {
    return run({.kind = detail::Step::bit_and, .operand = detail::to_bits(value), .order = order});
  }
  T fetch_or(T value, Order order) {
    return run({.kind = detail::Step::bit_or, .operand = detail::to_bits(value), .order = order});
  }
  bool compare_exchange_strong(T& expected, T desired, Order success, Order failure) {
    const detail::StepResult result = detail::perform(location_,
                                                      {.kind = detail::Step::compare,
                                                       .operand = detail::to_bits(desired),
                                                       .expected = detail::to_bits(expected),
                                                       .order = success,
                                                       .failure_order = failure});
    expected = detail::from_bits<T>(result.value);
    return result.has_changed;
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order failure) {
    return compare_exchange_strong(expected, desired, success, failure);
  }

  /// The futex: sleeps unless the value has changed already. True when the deadline came.
  bool sleep_while(T value, Sleep how) {
    return detail::perform(
               location_,
               {.kind = detail::Step::sleep,
                .operand = how == Sleep::with_deadline ? std::uint64_t{1} : std::uint64_t{0},
                .expected = detail::to_bits(value)})
        .has_changed;
  }
  void wake_one() { run({.kind = detail::Step::wake}); }

 private:
  T run(const detail::StepArguments& arguments) const {
    return detail::from_bits<T>(detail::perform(location_, arguments).value);
  }

  Location location_;
};

/// In the place of hearth::StdAtomics.
struct Atomics {
  template <class T>
  using Atomic = model::Atomic<T>;

  static void note_read(const void* memory) { detail::access(memory, false); }
  static void note_write(const void* memory) { detail::access(memory, true); }
};

}  // namespace hearth::model
