// RowJoin: like ops of several lanes wait briefly for one another and run as one call. They are the
// same product with the same weights, each for a few rows, and the joined call reads the weights
// once. Each row gets the same bits as alone: the backend states how many calls may join under that
// condition. Private to runtime. Owned by the device actor, touched by the token holder only.
// Invariants: (1) a lane is held at the record at its front, which is still in the lane; (2) a held
// lane waits for one turn of each ready lane that had joinable ops recently, and for no other lane;
// (3) a lane without company is never held.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/device/dispatch/lane_state.hpp"

namespace hearth {

class RowJoin {
 public:
  [[nodiscard]] bool is_empty() const noexcept { return held_.empty(); }
  /// Whether all lanes that could still join have had their turn.
  [[nodiscard]] bool is_due() const noexcept { return turns_left_ == 0; }
  /// Whether a lane that could join is held or ready.
  [[nodiscard]] bool has_join_candidates() const noexcept {
    return !held_.empty() || expected_ > 0;
  }

  /// Records that a lane became ready.
  void expect(LaneState& lane) noexcept;
  /// Counts a lane's turn. Returns false if the lane had no joinable op recently.
  [[nodiscard]] bool count_turn(LaneState& lane) noexcept;
  /// Records that a lane reached a joinable op.
  static void reset_turns_without_join(LaneState& lane) noexcept { lane.turns_without_join = 0; }
  /// Holds a lane. `most`: maximum number of ops like this lane's in one call.
  void hold(LaneState& lane, std::int64_t most);

  /// Removes and returns the lane that was held longest and those that may run with it, in the
  /// order in which they were held.
  template <class AreAlike>
  [[nodiscard]] const std::vector<LaneState*>& take_group(const AreAlike& are_alike) {
    taken_.clear();
    const Held first = held_.front();
    std::size_t kept = 0;
    for (const Held& entry : held_) {
      if (entry.lane == first.lane ||
          (taken_.size() < first.most && are_alike(*first.lane, *entry.lane))) {
        taken_.push_back(entry.lane);
      } else {
        held_[kept++] = entry;
      }
    }
    held_.resize(kept);
    return taken_;
  }
  /// Removes and returns all held lanes.
  [[nodiscard]] const std::vector<LaneState*>& take_all();

 private:
  /// A request takes about ten turns when others ring meanwhile.
  static constexpr std::uint8_t kRememberedTurns = 32;
  struct Held {
    LaneState* lane = nullptr;
    std::size_t most = 1;
  };

  std::vector<Held> held_;
  std::vector<LaneState*> taken_;  // scratch, reused
  std::size_t expected_ = 0;       // ready lanes that may reach a joinable op
  std::size_t turns_left_ = 0;     // turns that the first held lane still waits for
};

}  // namespace hearth
