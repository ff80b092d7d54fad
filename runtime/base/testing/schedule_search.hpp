// ScheduleSearch: enumerates the schedules of a small program with a bounded number of preemptions,
// one run for each. A preemption is a step at which another thread runs although the last one could
// continue.
// Threads: owner only. Invariants: (1) no two runs have the same choices; (2) after advance()
// returned false, all schedules within the bound have run, if the program is deterministic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hearth/runtime/base/schedule.hpp>

namespace hearth {

class ScheduleSearch final {
 public:
  /// Most bugs need two preemptions or fewer.
  explicit ScheduleSearch(int max_preemptions = 2) : max_preemptions_(max_preemptions) {}

  /// Returns the schedule of the next run.
  ///
  /// Errors: the schedule throws Exception (internal) if the program is not deterministic.
  /// Lifetime: until the next advance(), and at most as long as this.
  [[nodiscard]] ScheduleFn schedule();
  /// Advances to the next run. Returns false if there is none.
  [[nodiscard]] bool advance();

 private:
  struct Decision {
    std::vector<ThreadNumber> options;  // the one without a preemption first
    std::size_t taken = 0;
    int preemptions_before = 0;
    bool is_free = false;  // the previous thread could not continue
  };

  std::size_t choose(std::span<const ThreadNumber> runnable, ThreadNumber previous);
  [[nodiscard]] Decision decide(std::span<const ThreadNumber> runnable,
                                ThreadNumber previous,
                                int preemptions) const;

  int max_preemptions_;
  std::vector<Decision> decisions_;  // of the current run, or of the last one
  std::size_t next_ = 0;             // the next decision of the current run
  std::uint64_t in_a_row_ = 0;
};

}  // namespace hearth
