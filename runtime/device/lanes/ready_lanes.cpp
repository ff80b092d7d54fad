#include "ready_lanes.hpp"

namespace hearth {

LaneState& ReadyLanes::take_only() {
  turns_waited_ = {};
  size_ = 0;
  std::size_t index = 0;
  while (queues_[index].empty()) {
    ++index;
  }
  LaneState& lane = *queues_[index].front();
  queues_[index].pop_front();
  return lane;
}

// Takes the highest priority, unless a lower one has waited for enough turns. Of several such
// priorities, takes the lowest.
LaneState& ReadyLanes::take_by_priority(bool is_urgent_parked) {
  std::size_t chosen = queues_.size();
  for (std::size_t index = 0; index < queues_.size(); ++index) {
    const int patience = is_urgent_parked && index > 0 ? 1 : kPatience[index];
    const bool has_waited = index > 0 && turns_waited_[index] >= patience;
    if (!queues_[index].empty() && (chosen == queues_.size() || has_waited)) {
      chosen = index;
    }
  }
  for (std::size_t index = 0; index < queues_.size(); ++index) {
    turns_waited_[index] = index == chosen || queues_[index].empty() ? 0 : turns_waited_[index] + 1;
  }
  LaneState& lane = *queues_[chosen].front();
  queues_[chosen].pop_front();
  --size_;
  return lane;
}

}  // namespace hearth
