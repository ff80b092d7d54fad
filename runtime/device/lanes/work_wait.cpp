#include "work_wait.hpp"

namespace hearth {

Waited wait_for_work(LaneState& lane,
                     const LastUse& uses,
                     InFlight& in_flight,
                     LaneQueues& queues) {
  if (!lane.awaited_work) {
    if (in_flight.have_ended(uses)) {
      return Waited::ended;  // registers no wait: has_expired of another one stays set
    }
    lane.awaited_work = uses;
    lane.has_expired = false;  // of a wait for something else
  }
  const bool has_ended = in_flight.have_ended(*lane.awaited_work);
  if (has_ended || lane.has_expired) {
    lane.awaited_work.reset();
    return has_ended ? Waited::ended : Waited::hangs;
  }
  in_flight.await(*lane.awaited_work);
  queues.park_by_default(lane, ParkReason::device);
  return Waited::parked;
}

Step resume_later(LaneState& lane, InFlight& in_flight, LaneQueues& queues) {
  if (!lane.copy->room) {
    return Step::yields;
  }
  LastUse uses;
  uses.add(lane.copy->room->stream, lane.copy->room->value);
  return wait_for_work(lane, uses, in_flight, queues) == Waited::parked ? Step::parked
                                                                        : Step::yields;
}

}  // namespace hearth
