// ScheduleSearch: every schedule of a small program with at most so many preemptions, one run after
// the other. A preemption is a step at which another thread goes on although the last one could.
// Threads: owner only. Invariants: (1) no two runs have the same choices; (2) after advance() said
// false, all schedules within the bound have been run, as far as the program repeats itself.
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

  /// The schedule of the next run. Lifetime: until the next advance(), and not longer than this.
  ///
  /// Errors: the schedule throws Exception (internal) when the program does not repeat itself.
  [[nodiscard]] ScheduleFn schedule();
  /// Goes on to the next run; false when there is none.
  [[nodiscard]] bool advance();

 private:
  struct Decision {
    std::vector<ThreadNumber> options;  // the one that costs no preemption first
    std::size_t taken = 0;
    int preemptions_before = 0;
    bool is_free = false;  // the previous thread could not go on
  };

  std::size_t choose(std::span<const ThreadNumber> runnable, ThreadNumber previous);
  [[nodiscard]] Decision decide(std::span<const ThreadNumber> runnable,
                                ThreadNumber previous,
                                int preemptions) const;

  int max_preemptions_;
  std::vector<Decision> decisions_;  // of the run under way, or of the last one
  std::size_t next_ = 0;             // the next decision of the run under way
  std::uint64_t in_a_row_ = 0;
};

}  // namespace hearth
