// A lane's wait for work that an asynchronous device was given. The record stays at the lane's
// front and is consumed again when the work has ended. Private to runtime. Threads: token holder.
#pragma once

#include <cstdint>

#include "lane_queues.hpp"
#include "runtime/device/dispatch/in_flight.hpp"

namespace hearth {

enum class Waited : std::uint8_t {
  ended,   ///< The work has ended, or the device is lost and nothing is in flight.
  parked,  ///< The lane waits.
  hangs,   ///< The lane's time limit has passed.
};

/// Waits for these uses. A retried record continues to wait for the uses of its first attempt.
[[nodiscard]] Waited wait_for_work(LaneState& lane,
                                   const LastUse& uses,
                                   InFlight& in_flight,
                                   LaneQueues& queues);
/// Continues the lane's partial copy at its next turn: after the other lanes, or once the device
/// has room.
[[nodiscard]] Step resume_later(LaneState& lane, InFlight& in_flight, LaneQueues& queues);

}  // namespace hearth
