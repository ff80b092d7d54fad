// The time of a simulated device: queues that run commands, copy engines, one virtual clock.
// A command begins when its engine is free and every command that it waits for has ended. It takes
// its cost and has its effect at its end. Commands without an order between them may run in any
// order, chosen by seed.
// Owned by one device: no locks.
// Invariants: (1) an engine runs one command at a time; (2) effects happen in the order of their
// ends; (3) only advance() and run_next() move the clock; (4) equal commands and seeds give equal
// times; (5) a command that has ended is forgotten.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_set>
#include <vector>

#include <hearth/runtime/base/unique_function.hpp>

namespace hearth::sim {

struct SimMachineOptions {
  int queues = 1;        ///< Number of queues, which are engines 0 to queues − 1.
  int copy_engines = 0;  ///< Number of copy engines, numbered after the queues.
  /// 0: each engine runs its commands in the order of submit. Otherwise a seed: a free engine picks
  /// any of its commands that can begin.
  std::uint64_t reorder_seed = 0;
};

struct SimCommand {
  int engine = 0;
  std::chrono::nanoseconds cost{0};
  std::vector<std::uint64_t> after = {};  ///< Commands that it waits for.
  UniqueFunction<void()> effect = {};     ///< Runs at its end; may be empty.
  bool hangs = false;                     ///< The command begins and never ends.
};

class SimMachine {
 public:
  explicit SimMachine(const SimMachineOptions& options = {});

  /// Submits a command and returns its number, from 1.
  std::uint64_t submit(SimCommand command);
  /// Advances the clock and runs the effects that are due by then.
  void advance(std::chrono::nanoseconds duration);
  /// Moves the clock to the next end of a running command, but not past `limit`. Returns false if
  /// no command ends by then.
  bool run_next(std::chrono::nanoseconds limit = std::chrono::nanoseconds::max());

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return now_; }
  [[nodiscard]] bool has_ended(std::uint64_t number) const;
  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_; }
  [[nodiscard]] int queue_count() const noexcept { return options_.queues; }
  /// The queue with the fewest commands.
  [[nodiscard]] int least_busy_queue() const;

 private:
  struct Entry {
    std::uint64_t number = 0;
    SimCommand command;
    std::chrono::nanoseconds end{0};  // set once it has begun
  };
  struct Engine {
    std::optional<Entry> running;
    std::deque<Entry> waiting;
  };

  void begin_what_can();
  /// Takes the command that runs next, if one can begin.
  [[nodiscard]] std::optional<Entry> take_next(std::deque<Entry>& waiting);
  /// Removes ended commands from the entry's dependencies; returns whether it can begin.
  [[nodiscard]] bool can_begin(Entry& entry) const;
  /// Engine whose command ends first; null if no running command ends.
  [[nodiscard]] Engine* next_end();
  void end(Engine& engine);
  std::uint64_t next_random() noexcept;

  SimMachineOptions options_;
  std::uint64_t random_;
  std::chrono::nanoseconds now_{0};
  std::uint64_t submitted_ = 0;
  std::vector<Engine> engines_;
  std::unordered_set<std::uint64_t> running_;
};

}  // namespace hearth::sim
