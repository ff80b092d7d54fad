// ReadyLanes: the runnable lanes of a device, in the order of their turns. Private to runtime.
// Owned by the device actor, touched by the token holder only.
// Invariants: (1) lanes of one priority take turns; (2) a lane of higher priority runs first; (3) a
// waiting priority gets a turn after at most kPatience turns of others, so that no lane starves.
// While an urgent lane is parked it gets one after each turn of others, because the urgent lane may
// wait for it.
#pragma once

#include <array>
#include <cstddef>
#include <deque>

#include <hearth/runtime/priority.hpp>

#include "runtime/device/dispatch/lane_state.hpp"

namespace hearth {

class ReadyLanes {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  void push(LaneState& lane) {
    queues_[index_of(lane.priority)].push_back(&lane);
    ++size_;
  }
  /// Takes the lane with the next turn. `is_urgent_parked`: a lane above background priority waits
  /// for other lanes.
  [[nodiscard]] LaneState& take(bool is_urgent_parked) {
    return size_ == 1 ? take_only() : take_by_priority(is_urgent_parked);
  }
  /// Whether a lane of a higher priority is ready.
  [[nodiscard]] bool has_before(Priority priority) const noexcept {
    if (size_ == 0) {
      return false;  // usual case: no other lane is ready
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

  /// Takes the only ready lane; no priority is passed over.
  [[nodiscard]] LaneState& take_only();
  [[nodiscard]] LaneState& take_by_priority(bool is_urgent_parked);

  std::array<std::deque<LaneState*>, kPriorityCount> queues_;
  std::array<int, kPriorityCount> turns_waited_{};  ///< turns of others since it began to wait
  std::size_t size_ = 0;
};

}  // namespace hearth
