// A model checker for lock-free code. It runs a small program of a few threads in every order of
// their atomic steps, with every value that each load may see. It detects data races, lost wakes
// and violated require() conditions. The threads are fibers; model::Atomics replaces std::atomic.
//
// The memory is that of C++ without seq_cst. A load may see any store that is not hidden by one
// that happened before it or that its thread has seen. A read-modify-write sees the last store.
// Release and acquire carry views along, relaxed operations do not. So stores linger as in store
// buffers, and loads may be early as on machines weaker than x86. One effect is left out: two
// stores of one word keep the order in which they were made.
// Threads: one. Invariants: (1) no two executions are equal up to the order of independent steps,
// except those counted as redundant; (2) if is_complete, a program without a counterexample has
// none within this memory.
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

/// A weakening of one atomic's operations, to show that the checker detects it.
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
  /// Whether to skip executions that cannot show anything new. Otherwise every order of steps runs.
  bool skips_equal_ones = true;
  int max_steps = 400;  ///< Limit of one execution, against endless polling.
};

/// A program. The functions own the state of one execution.
struct Program {
  std::vector<std::function<void()>> threads;
  std::function<void()> at_end = {};  ///< Runs after all threads.
};

struct CheckResult {
  std::uint64_t executions = 0;
  std::uint64_t redundant = 0;  ///< The part of these that equals an earlier one from some step on.
  std::uint64_t steps = 0;
  bool is_complete = false;
  std::size_t locations = 0;
  std::optional<std::string> counterexample = {};  ///< The violation, then the steps to it.
};

/// Checks the program, which `make` makes anew for each execution; ends at the first
/// counterexample.
[[nodiscard]] CheckResult check(const std::function<Program()>& make,
                                const CheckOptions& options = {});

/// Inside a program: reports a counterexample and does not return if the condition is false.
void require(bool condition, const char* text);
/// A deadline passes only if no thread can run otherwise.
enum class Sleep : std::uint8_t { for_ever, with_deadline };

namespace detail {

/// Kinds of steps at an atomic, as far as the order of steps distinguishes them.
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
  std::uint64_t value = 0;  // the previous value
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

  /// The futex: sleeps unless the value has changed already. Returns true if the deadline passed.
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

/// Replaces hearth::StdAtomics.
struct Atomics {
  template <class T>
  using Atomic = model::Atomic<T>;

  static void record_read(const void* memory) { detail::access(memory, false); }
  static void record_write(const void* memory) { detail::access(memory, true); }
};

}  // namespace hearth::model
