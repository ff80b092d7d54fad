#include "lane_queues.hpp"

#include <algorithm>
#include <utility>

#include <hearth/runtime/base/assert.hpp>

namespace hearth {
namespace {

/// Time at which the lane's next record is cancelled, however long its wait may last.
Deadline end_of(const LaneState& lane) noexcept {
  return lane.in_group ? Deadline::never() : lane.limits.deadline();
}

}  // namespace

// Producers open lanes without notifying the actor. It meets a lane when the lane rings or when a
// drop names it.
LaneState& LaneQueues::meet(LaneId id) {
  LaneState* const known = lanes_.find(id);
  return known != nullptr ? *known : lanes_.make(*endpoint_.lanes.find(id));
}

// A ready lane stays in the queue of its old priority until its turn, so the order of queued lanes
// does not change.
void LaneQueues::set_priority(LaneId id, Priority priority) {
  if (endpoint_.lanes.find(id) != nullptr) {
    LaneState& lane = meet(id);
    urgent_waits_ -= waits_urgently(lane) ? 1 : 0;
    lane.priority = priority;
    urgent_waits_ += waits_urgently(lane) ? 1 : 0;
  }
}

// ---- windows ----

void LaneQueues::linger(LaneState& lane) {
  lingering_.push_back(&lane);
  lane.lingers = true;
  lane.linger_until =
      endpoint_.tables().is_deterministic ? Deadline::never() : Deadline::in(kLinger);
}

void LaneQueues::end_linger(LaneState& lane) noexcept {
  lane.lingers = false;
  std::erase(lingering_, &lane);
}

// The producer of a lingering lane may ring it at any time, so the actor takes the lane as the
// producer would. If the producer was faster, the doorbell brings the lane.
void LaneQueues::end_window(LaneState& lane, WindowEnd why) {
  if (!lane.window.is_open()) {
    return;
  }
  ++window_ends_[static_cast<std::size_t>(why)];
  lane.window_end = why;
  whole_windows_ += lane.window.end(is_program_boundary(why)) ? 1U : 0U;
  if (lane.lingers) {
    end_linger(lane);
    if (lane.lane->reclaim()) {
      make_ready(lane);
    }
  }
}

void LaneQueues::end_lingering(WindowEnd why) {
  while (!lingering_.empty()) {
    end_window(*lingering_.back(), why);
  }
}

void LaneQueues::end_window_of(const Slot& slot) {
  if (slot.state == SlotState::pending) {
    if (LaneState* const producer = lanes_.find(slot.home)) {
      end_window(*producer, WindowEnd::foreign_use);
    }
  }
}

// ---- parked ----

void LaneQueues::park(LaneState& lane, ParkReason reason, Deadline deadline) {
  HEARTH_ASSERT(!lane.window.is_open(), "a lane parks with its window open");
  memory_waits_ += reason == ParkReason::memory ? 1 : 0;
  urgent_waits_ += waits_urgently(lane) ? 1 : 0;
  lane.parked = reason;
  lane.deadline = deadline;
  parked_.push_back(&lane);
  if (deadline < next_deadline()) {
    set_next_deadline(deadline);
  }
}

void LaneQueues::park_by_default(LaneState& lane, ParkReason reason) {
  std::chrono::nanoseconds limit = endpoint_.tables().wait_limit;
  if (reason == ParkReason::device) {
    limit -= limit / 8;  // so that it names the hanging op before its reader's limit expires
  }
  lane.limit.emplace(limit, progress_for(lane, reason));
  park(lane, reason, std::min(lane.limit->next_check(), end_of(lane)));
}

void LaneQueues::park_on(Slot& slot, LaneState& lane, Deadline deadline) {
  end_window_of(slot);
  slot.waiting.push_back(&lane);
  lane.awaited_slot = &slot;
  park(lane, ParkReason::slot, deadline);
}

void LaneQueues::park_on(Slot& slot, LaneState& lane) {
  end_window_of(slot);
  slot.waiting.push_back(&lane);
  lane.awaited_slot = &slot;
  park_by_default(lane, ParkReason::slot);
}

void LaneQueues::park_for_bytes(LaneState& lane, DeviceEndpoint& source) {
  reserve_park();  // nothing throws after the note, so unpark() removes it
  endpoint_.record_awaited(source);
  lane.awaited_device = &source;
  park_by_default(lane, ParkReason::transfer);
}

// Records of this device may end any wait here. A lane that waits for another device's bytes also
// waits for that device's work, and any other lane may wait for such a lane.
std::uint64_t LaneQueues::progress_for(const LaneState& lane, ParkReason reason) const {
  if (reason == ParkReason::device) {
    // Records are done once they are submitted, and other queues of the device may advance.
    return lane.awaited_work ? in_flight_.progress_to(*lane.awaited_work) : work_count_;
  }
  return record_count_ + work_count_ +
         (lane.awaited_device != nullptr ? lane.awaited_device->progress() : endpoint_.progress());
}

bool LaneQueues::renew(LaneState& lane) const {
  if (!lane.limit || end_of(lane).has_passed()) {
    return false;
  }
  if (lane.limit->has_expired(progress_for(lane, lane.parked))) {
    return false;
  }
  lane.deadline = std::min(lane.limit->next_check(), end_of(lane));
  return true;
}

void LaneQueues::unpark(LaneState& lane) {
  if (lane.parked == ParkReason::none) {
    return;
  }
  memory_waits_ -= lane.parked == ParkReason::memory ? 1 : 0;
  urgent_waits_ -= waits_urgently(lane) ? 1 : 0;
  lane.parked = ParkReason::none;
  lane.limit.reset();
  if (lane.awaited_device != nullptr) {
    endpoint_.forget_awaited(*std::exchange(lane.awaited_device, nullptr));
  }
  std::erase(parked_, &lane);
  make_ready(lane);
}

void LaneQueues::unpark_all(std::vector<LaneState*>& woken) {
  for (LaneState* lane : woken) {
    unpark(*lane);
  }
  woken.clear();  // its capacity is kept for the next slot
}

void LaneQueues::leave_slot(LaneState& lane) noexcept {
  if (lane.parked == ParkReason::slot) {
    std::erase(lane.awaited_slot->waiting, &lane);
  }
}

void LaneQueues::unpark_memory_waits() {
  for (LaneState* lane : std::vector<LaneState*>(parked_)) {
    if (lane->parked == ParkReason::memory) {
      unpark(*lane);
    }
  }
}

LaneState& LaneQueues::youngest_memory_wait() const {
  return **std::find_if(parked_.rbegin(), parked_.rend(), [](const LaneState* lane) {
    return lane->parked == ParkReason::memory;
  });
}

}  // namespace hearth
