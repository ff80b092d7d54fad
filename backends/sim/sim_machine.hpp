// The time of a simulated device: queues that run commands, copy engines, one virtual clock. A
// command begins when its engine is free and all that it waits for has ended, takes its cost, and
// has its effect at its end. Work that nothing orders may run in any order, by seed.
// Owned by one device: no locks. Invariants: (1) an engine runs one command at a time; (2) effects
// happen in the order of their ends; (3) the clock moves by advance() and run_until() only; (4)
// equal commands and seeds give equal times.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include <hearth/runtime/base/unique_function.hpp>

namespace hearth::sim {

struct SimMachineOptions {
  int queues = 1;        ///< Engines 0 to queues − 1.
  int copy_engines = 0;  ///< The engines after them.
  /// 0: each engine runs its commands in the order of submit. Else a seed: a free engine takes any
  /// of its commands that can begin.
  std::uint64_t reorder_seed = 0;
};

struct SimCommand {
  int engine = 0;
  std::chrono::nanoseconds cost{0};
  std::vector<std::uint64_t> after = {};  ///< The commands it waits for.
  UniqueFunction<void()> effect = {};     ///< At its end; may be empty.
  bool hangs = false;                     ///< It begins and never ends.
};

class SimMachine {
 public:
  explicit SimMachine(const SimMachineOptions& options = {});

  /// The command's number, from 1.
  std::uint64_t submit(SimCommand command);
  /// Moves the clock on; what ends by then has its effect.
  void advance(std::chrono::nanoseconds duration);
  /// Moves the clock to the command's end, but not past `limit`; false when it has not ended then.
  bool run_until(std::uint64_t number,
                 std::chrono::nanoseconds limit = std::chrono::nanoseconds::max());

  /// Moves the clock to the first end of what is under way, but not past `limit`; false when none
  /// comes by then.
  bool run_next(std::chrono::nanoseconds limit = std::chrono::nanoseconds::max());

  [[nodiscard]] std::chrono::nanoseconds now() const noexcept { return now_; }
  [[nodiscard]] bool has_ended(std::uint64_t number) const;
  /// Whether `earlier` is sure to have ended before `later` begins: it has ended, or `later` waits
  /// for it, directly or through others, or by its place in an engine that keeps order.
  [[nodiscard]] bool is_ordered(std::uint64_t earlier, std::uint64_t later) const;
  /// Whether it can never end: it hangs, or waits for what does.
  [[nodiscard]] bool is_stuck(std::uint64_t number) const;
  /// When the last of the commands ends that are not stuck, if nobody submits more.
  [[nodiscard]] std::chrono::nanoseconds busy_until() const;
  [[nodiscard]] std::uint64_t submitted() const noexcept { return submitted_; }
  [[nodiscard]] int queue_count() const noexcept { return options_.queues; }
  /// The engine that is free first: of the queues, or of the copy engines.
  [[nodiscard]] int least_busy_queue() const;
  [[nodiscard]] int least_busy_copy_engine() const;

 private:
  struct Entry {
    std::uint64_t number = 0;
    SimCommand command;
    std::set<std::uint64_t> ancestors;  // that had not ended at submit
    bool has_begun = false;
    bool is_stuck = false;
    std::chrono::nanoseconds begin{0};
    std::chrono::nanoseconds end{0};
  };

  void begin_what_can();
  [[nodiscard]] Entry* next_for(int engine);
  [[nodiscard]] bool can_begin(const Entry& entry) const;
  /// The first to end of those under way; null when there is none.
  [[nodiscard]] Entry* next_end();
  void end(Entry& entry);
  [[nodiscard]] const Entry* find(std::uint64_t number) const;
  [[nodiscard]] int least_busy(int first, int count) const;
  std::uint64_t next_random() noexcept;

  SimMachineOptions options_;
  std::uint64_t random_;
  std::chrono::nanoseconds now_{0};
  std::uint64_t submitted_ = 0;
  std::deque<Entry> entries_;  // not ended, in the order of submit
  std::vector<bool> is_busy_;  // by engine
};

}  // namespace hearth::sim
