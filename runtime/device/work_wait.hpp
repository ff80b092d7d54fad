// A lane's wait until an asynchronous device has ended work that it was given: the record stays at
// the lane's front and is consumed anew when the work has ended. Private to runtime. Threads: token
// holder.
#pragma once

#include <cstdint>

#include "in_flight.hpp"
#include "lane_queues.hpp"

namespace hearth {

enum class Waited : std::uint8_t {
  ended,   ///< It has ended, or the device is lost and nothing is in flight.
  parked,  ///< The lane waits.
  hangs,   ///< The lane has waited as long as it may.
};

/// Waits for these uses; a record that comes again goes on waiting for those of its first time.
[[nodiscard]] Waited wait_for_work(LaneState& lane,
                                   const LastUse& uses,
                                   InFlight& in_flight,
                                   LaneQueues& queues);
/// The lane's copy, of which the device has taken a part, goes on at the lane's next turn: behind
/// the other lanes, or, where the device had no room, once it has some.
[[nodiscard]] Step go_on_later(LaneState& lane, InFlight& in_flight, LaneQueues& queues);

}  // namespace hearth
