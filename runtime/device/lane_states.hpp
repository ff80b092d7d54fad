// The actor's side of the lanes that it has met and that have not ended, by id.
// Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariant: a LaneState stays where it is until erase().
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "lane_state.hpp"

namespace hearth {

class LaneStates {
 public:
  /// nullptr when the actor has not met the lane, or it has ended.
  [[nodiscard]] LaneState* find(LaneId id) const noexcept {
    const auto found = states_.find(id);
    return found == states_.end() ? nullptr : found->second.get();
  }
  LaneState& make(Lane& lane) {
    return *states_.emplace(lane.id(), std::make_unique<LaneState>(lane)).first->second;
  }
  /// Of a lane that is here.
  void erase(LaneId id) noexcept { states_.erase(id); }
  [[nodiscard]] std::size_t size() const noexcept { return states_.size(); }
  /// In the order of their ids.
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
