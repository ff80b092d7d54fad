// LaneStates: the states of the lanes that the actor has met and that have not ended, by id.
// Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariant: a LaneState keeps its address until erase().
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "runtime/device/dispatch/lane_state.hpp"

namespace hearth {

class LaneStates {
 public:
  /// Returns nullptr if the actor has not met the lane, or the lane has ended.
  [[nodiscard]] LaneState* find(LaneId id) const noexcept {
    const auto found = states_.find(id);
    return found == states_.end() ? nullptr : found->second.get();
  }
  LaneState& make(Lane& lane) {
    return *states_.emplace(lane.id(), std::make_unique<LaneState>(lane)).first->second;
  }
  /// Requires that the lane is present.
  void erase(LaneId id) noexcept { states_.erase(id); }
  [[nodiscard]] std::size_t size() const noexcept { return states_.size(); }
  /// Visits the lanes in the order of their ids.
  template <class Fn>
  void for_each(const Fn& fn) const {
    for (const auto& [id, state] : states_) {
      fn(*state);
    }
  }

 private:
  std::map<LaneId, std::unique_ptr<LaneState>> states_;
};

}  // namespace hearth
