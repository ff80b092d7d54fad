#include "lane_directory.hpp"

namespace hearth {

Lane& LaneDirectory::open() {
  const LaneId id{last_id_.fetch_add(1, std::memory_order_acq_rel) + 1};
  auto lane = std::make_unique<Lane>(id);
  const detail::MutexLock lock(mutex_);
  return *open_.emplace(id, std::move(lane)).first->second;
}

Lane* LaneDirectory::find(LaneId id) const noexcept {
  const detail::MutexLock lock(mutex_);
  const auto found = open_.find(id);
  return found == open_.end() ? nullptr : found->second.get();
}

void LaneDirectory::close(LaneId id) noexcept {
  Lanes::node_type ended;
  const detail::MutexLock lock(mutex_);
  ended = open_.extract(id);
}

std::vector<Lane*> LaneDirectory::open_lanes() const {
  const detail::MutexLock lock(mutex_);
  std::vector<Lane*> lanes;
  for (const auto& [id, lane] : open_) {
    lanes.push_back(lane.get());
  }
  return lanes;
}

}  // namespace hearth
