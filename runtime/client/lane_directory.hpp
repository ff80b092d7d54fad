// The lanes of one device that have not ended, by their ids, which count up and are never reused.
// Of ended lanes it keeps nothing. Private to runtime. Threads: any, where nothing else is said.
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

  /// A new lane.
  [[nodiscard]] Lane& open();
  /// The lane, or nullptr when it has ended (then all its records count as consumed). Threads:
  /// token holder only.
  [[nodiscard]] Lane* find(LaneId id) const noexcept;
  /// Ends a drained lane. Threads: token holder only.
  void close(LaneId id) noexcept;
  /// Those opened and not closed now, by id. Threads: token holder only, so that they stay.
  [[nodiscard]] std::vector<Lane*> open_lanes() const;

 private:
  using Lanes = std::map<LaneId, std::unique_ptr<Lane>>;

  std::atomic<std::uint64_t> last_id_{0};
  mutable detail::Mutex mutex_;
  Lanes open_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth
