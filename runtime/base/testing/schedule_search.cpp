#include <hearth/runtime/base/schedule_search.hpp>

#include <hearth/runtime/base/error.hpp>

#include <algorithm>

namespace hearth {

ScheduleFn ScheduleSearch::schedule() {
  next_ = 0;
  in_a_row_ = 0;
  return [this](std::span<const ThreadNumber> runnable, ThreadNumber previous) {
    return choose(runnable, previous);
  };
}

bool ScheduleSearch::advance() {
  while (!decisions_.empty() && decisions_.back().taken + 1 == decisions_.back().options.size()) {
    decisions_.pop_back();
  }
  if (decisions_.empty()) {
    return false;
  }
  ++decisions_.back().taken;
  return true;
}

ScheduleSearch::Decision ScheduleSearch::decide(std::span<const ThreadNumber> runnable,
                                                ThreadNumber previous,
                                                int preemptions) const {
  Decision decision;
  decision.preemptions_before = preemptions;
  const bool can_stay = std::ranges::find(runnable, previous) != runnable.end();
  // A polling thread must yield to the others, or the run would never end.
  decision.is_free = !can_stay || in_a_row_ >= kSchedulePatience;
  if (!decision.is_free) {
    decision.options.push_back(previous);
  }
  if (decision.is_free || preemptions < max_preemptions_) {
    for (const ThreadNumber thread : runnable) {
      if (thread != previous) {
        decision.options.push_back(thread);
      }
    }
  }
  return decision;
}

std::size_t ScheduleSearch::choose(std::span<const ThreadNumber> runnable, ThreadNumber previous) {
  if (runnable.size() == 1) {
    in_a_row_ = 0;
    return 0;
  }
  if (next_ == decisions_.size()) {
    int preemptions = 0;
    if (!decisions_.empty()) {
      const Decision& last = decisions_.back();
      preemptions = last.preemptions_before + (!last.is_free && last.taken > 0 ? 1 : 0);
    }
    decisions_.push_back(decide(runnable, previous, preemptions));
  }
  const Decision& decision = decisions_[next_++];
  const ThreadNumber thread = decision.options[decision.taken];
  const auto found = std::ranges::find(runnable, thread);
  if (found == runnable.end()) {
    throw_error(Error{.text = "schedule search: the program does not repeat itself: it runs "
                              "differently after equal choices"});
  }
  in_a_row_ = thread == previous ? in_a_row_ + 1 : 0;
  return static_cast<std::size_t>(found - runnable.begin());
}

}  // namespace hearth
