// LaneDirectory: the open lanes of one device by id. Ids count up and are never reused. Closed
// lanes leave no entry. Private to runtime. Threads: any, unless stated otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/sync.hpp>
#include <hearth/streams/lane.hpp>

namespace hearth {

class LaneDirectory {
 public:
  LaneDirectory() = default;
  LaneDirectory(const LaneDirectory&) = delete;
  LaneDirectory& operator=(const LaneDirectory&) = delete;
  ~LaneDirectory() = default;

  /// Opens a new lane.
  [[nodiscard]] Lane& open();
  /// Returns the lane, or nullptr if it has been closed; then all its records count as consumed.
  /// Threads: token holder only.
  [[nodiscard]] Lane* find(LaneId id) const noexcept;
  /// Closes a drained lane. Threads: token holder only.
  void close(LaneId id) noexcept;
  /// The open lanes by id. Threads: token holder only, so none of them closes meanwhile.
  [[nodiscard]] std::vector<Lane*> open_lanes() const;

 private:
  using Lanes = std::map<LaneId, std::unique_ptr<Lane>>;

  std::atomic<std::uint64_t> last_id_{0};
  mutable detail::Mutex mutex_;
  Lanes open_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
