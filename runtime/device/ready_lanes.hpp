// The lanes of a device that can run, in the order of their turns.
// Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariants: (1) lanes of one priority take turns; (2) a more urgent lane goes first, but (3) a
// priority that waits gets a turn after at most kPatience turns of others, so that nobody starves;
// after one turn while an urgent lane waits for others, who may be these.
#pragma once

#include <array>
#include <cstddef>
#include <deque>

#include <hearth/runtime/priority.hpp>

#include "lane_state.hpp"

namespace hearth {

class ReadyLanes {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void push(LaneState& lane) {
    queues_[index_of(lane.priority)].push_back(&lane);
    ++size_;
  }
  /// The next to have a turn. `is_urgent_parked`: a lane with a priority above background waits for
  /// other lanes.
  [[nodiscard]] LaneState& take(bool is_urgent_parked) {
    return size_ == 1 ? take_only() : take_by_priority(is_urgent_parked);
  }
  /// Whether a lane that comes before this priority is ready.
  [[nodiscard]] bool has_before(Priority priority) const noexcept {
    if (size_ == 0) {
      return false;  // nearly always: a lane has its turn and is alone
    }
    for (std::size_t index = 0; index < index_of(priority); ++index) {
      if (!queues_[index].empty()) {
        return true;
      }
    }
    return false;
  }

 private:
  static constexpr std::array<int, kPriorityCount> kPatience{0, 4, 16};

  [[nodiscard]] static constexpr std::size_t index_of(Priority priority) noexcept {
    return static_cast<std::size_t>(priority);
  }

  /// Nobody is passed over where one lane alone is ready.
  [[nodiscard]] LaneState& take_only();
  [[nodiscard]] LaneState& take_by_priority(bool is_urgent_parked);

  std::array<std::deque<LaneState*>, kPriorityCount> queues_;
  std::array<int, kPriorityCount> passed_over_{};  ///< turns of others since it began to wait
  std::size_t size_ = 0;
};

}  // namespace hearth
