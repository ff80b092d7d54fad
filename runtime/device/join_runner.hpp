// JoinRunner joins like ops of several lanes (row_join.hpp): holds lanes and runs the held ops as
// one call. Private to runtime. Owned by the device actor, touched by the token holder only.
#pragma once

#include "records.hpp"
#include "runtime/device/dispatch/dispatch.hpp"
#include "runtime/device/lanes/lane_queues.hpp"

namespace hearth {

class JoinRunner final {
 public:
  JoinRunner(Dispatch& dispatch, LaneQueues& queues, Records& records) noexcept
      : dispatch_(dispatch), queues_(queues), records_(records) {}

  /// Whether the lane's front waits for like ops of other lanes. If so, the row join holds the
  /// lane.
  [[nodiscard]] bool hold(LaneState& lane, const OpView& op);
  /// Releases all held lanes.
  void release_all();
  /// Runs the op that was held longest, with those like it.
  void run_group();

 private:
  Dispatch& dispatch_;
  LaneQueues& queues_;
  Records& records_;
};

}  // namespace hearth
