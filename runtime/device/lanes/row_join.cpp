#include "row_join.hpp"

namespace hearth {

void RowJoin::expect(LaneState& lane) noexcept {
  if (lane.turns_without_join < kRememberedTurns && !lane.is_expected) {
    lane.is_expected = true;
    ++expected_;
  }
}

bool RowJoin::count_turn(LaneState& lane) noexcept {
  if (lane.turns_without_join < kRememberedTurns) {
    ++lane.turns_without_join;
  }
  if (!lane.is_expected) {
    return false;
  }
  lane.is_expected = false;
  --expected_;
  turns_left_ -= turns_left_ > 0 ? 1 : 0;
  return true;
}

void RowJoin::hold(LaneState& lane, std::int64_t most) {
  if (held_.empty()) {
    turns_left_ = expected_;
  }
  held_.push_back({&lane, static_cast<std::size_t>(most)});
}

const std::vector<LaneState*>& RowJoin::take_all() {
  taken_.clear();
  for (const Held& entry : held_) {
    taken_.push_back(entry.lane);
  }
  held_.clear();
  return taken_;
}

}  // namespace hearth
