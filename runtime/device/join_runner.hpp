// Lets like ops of several lanes run as one (row_join.hpp): holds lanes, and runs what they hold.
// Private to runtime. Owned by the device actor, touched by the token holder only.
#pragma once

#include "dispatch.hpp"
#include "lane_queues.hpp"
#include "records.hpp"

namespace hearth {

class JoinRunner final {
 public:
  JoinRunner(Dispatch& dispatch, LaneQueues& queues, Records& records) noexcept
      : dispatch_(dispatch), queues_(queues), records_(records) {}

  /// Whether the lane's front waits for like ops of other lanes; then the row join holds it.
  [[nodiscard]] bool hold(LaneState& lane, const OpView& op);
  /// Lets all go that are held.
  void let_go();
  /// Runs the op held longest, and those like it.
  void run_group();

 private:
  Dispatch& dispatch_;
  LaneQueues& queues_;
  Records& records_;
};

}  // namespace hearth
