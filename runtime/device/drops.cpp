#include "drops.hpp"

#include <algorithm>
#include <utility>

#include <hearth/streams/op_attributes.hpp>

namespace hearth {

std::vector<DeferredDrop::Use> Drops::uses_of_drop(const LastUsesBlob& blob) const {
  std::vector<DeferredDrop::Use> uses;
  for (std::uint32_t i = 0; i < blob.count; ++i) {
    uses.push_back({LaneId{blob.lane[i]}, blob.sequence[i]});
  }
  if (blob.all_lanes != 0) {
    // More lanes used the tensor than it remembers: everything queued anywhere now must be done
    // first.
    for (const Lane* other : endpoint_.lanes.open_lanes()) {
      if (const std::uint64_t pushed = other->pushed_seen(); !has_done(other->id(), pushed)) {
        uses.push_back({other->id(), pushed});
      }
    }
  }
  return uses;
}

// A record that has left its lane may still have work to do (LaneState::done). The lane's own count
// is used only for lanes that the actor has not met: none of their records has been taken.
bool Drops::has_done(LaneId id, std::uint64_t sequence) const {
  if (const LaneState* known = queues_.find(id)) {
    return known->done() >= sequence;
  }
  const Lane* lane = endpoint_.lanes.find(id);
  return lane == nullptr || lane->consumed() >= sequence;  // it has ended, or was not met yet
}

bool Drops::are_done(std::span<const DeferredDrop::Use> uses, LaneId watcher, Waits waits) {
  for (const DeferredDrop::Use& use : uses) {
    if (use.lane == watcher || has_done(use.lane, use.sequence)) {
      continue;
    }
    LaneState& user = queues_.meet(use.lane);
    if (waits == Waits::lane) {
      ask_for(user, use.sequence);
    }
    // A watcher registers once, although each of its drops may come here.
    std::vector<LaneId>& watchers = user.watchers;
    if (std::ranges::find(watchers, watcher) == watchers.end()) {
      watchers.push_back(watcher);
    }
    return false;
  }
  return true;
}

// If the window holds the record, it ends now, before the watcher is registered, which the end
// would notify. Its records run at later turns, so nothing is done yet. A window without the record
// stays open.
void Drops::ask_for(LaneState& user, std::uint64_t sequence) {
  if (sequence <= user.lane->consumed() + user.window.looked()) {
    queues_.end_window(user, WindowEnd::watched);
  } else {
    user.watched = std::min(user.watched, sequence);
  }
}

void Drops::drop_used(LaneState& lane, const OpView& op) {
  const SlotId slot = op.input(0).slot;
  DeferredDrop entry{slot, {}};
  if (op.record().blob_size_bytes > 0) {
    entry.uses = uses_of_drop(op.attributes<LastUsesBlob>());
  }
  drop_when_done(std::move(entry), lane.id, lane.deferred);
}

void Drops::drop_from_outside(SlotId slot, const LastUsesBlob& uses) {
  drop_when_done({slot, uses_of_drop(uses)}, LaneId{}, outside_);
}

void Drops::take_late_drops() {
  for (DeferredDrop& late : dispatch_.late_drops) {
    drop_when_done(std::move(late), LaneId{}, outside_);
  }
  dispatch_.late_drops.clear();
}

// Guests are checked last: an adoption among the uses may still add some, including the lane that
// makes the tensor.
bool Drops::release_when_done(DeferredDrop& drop, LaneId watcher) {
  while (are_done(drop.uses, watcher, Waits::memory)) {
    drop.uses = dispatch_.guests.take(drop.slot);
    if (drop.uses.empty()) {
      dispatch_.release_slot(drop.slot);
      return true;
    }
  }
  return false;
}

void Drops::drop_when_done(DeferredDrop&& entry,
                           LaneId watcher,
                           std::vector<DeferredDrop>& waiting) {
  if (!release_when_done(entry, watcher)) {
    waiting.push_back(std::move(entry));
  }
}

void Drops::settle(std::vector<DeferredDrop>& drops, LaneId watcher) {
  std::vector<DeferredDrop> left;
  for (DeferredDrop& entry : drops) {
    if (!release_when_done(entry, watcher)) {
      left.push_back(std::move(entry));
    }
  }
  drops = std::move(left);
}

// Later records of this lane assume that they are the only users. If the others are not done by the
// deadline, the lane continues anyway: the tensor then has guests. Progress does not renew this
// deadline; otherwise lanes that adopt from each other would wait as long as any third lane
// advances.
Step Drops::adopt(LaneState& lane, const OpView& op) {
  const Operand operand = op.input(0);
  Slot& slot = handles_.slot(operand.slot);
  const bool is_made = !is_uncreated(slot, operand);
  std::vector<DeferredDrop::Use> uses;
  if (op.record().blob_size_bytes > 0) {
    uses = uses_of_drop(op.attributes<LastUsesBlob>());
  }
  if (!is_made || !are_done(uses, lane.id, Waits::lane)) {
    const Deadline deadline = Deadline::in(endpoint_.tables().wait_limit);
    if (lane.has_expired) {
      dispatch_.add_guests({operand.slot, std::move(uses)});
    } else if (!is_made) {
      queues_.park_on(slot, lane, deadline);
      return Step::parked;
    } else {
      queues_.park(lane, ParkReason::lanes, deadline);
      return Step::parked;
    }
  }
  if (is_made) {
    slot.home = lane.id;
    slot.is_published = false;
  }
  return Step::consumed;
}

}  // namespace hearth
