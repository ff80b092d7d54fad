// Operands and lifetimes: the tensors for which an op waits, the tensors that it poisons, and when
// a drop may happen.
#include "window_model.hpp"

#include <algorithm>

namespace hearth::model {

// An operand that this lane makes itself is computed, or pending in its own window or group.
Byte WindowModel::unborn_operand(int lane, Byte record) {
  for (const Byte operand : plan_.record(lane, record).in) {
    if (operand == kNone) {
      continue;
    }
    require(tensor_of(operand).state != TensorState::gone,
            plan_.text_of(lane, record) + " needs " + plan_.name_of(operand) + ", which is gone");
    const int maker = plan_.tensors.at(operand).maker.lane;
    if (maker == lane) {
      continue;
    }
    if (tensor_of(operand).state == TensorState::pending && rules_.foreign_use_cuts) {
      end_window(maker, End::cut, "the other lane uses what it makes");
    }
    const TensorState state = tensor_of(operand).state;
    if (state == TensorState::uncreated || state == TensorState::pending) {
      return operand;
    }
  }
  return kNone;
}

bool WindowModel::is_poisoned(Byte lane, Byte record) const {
  const auto has_poison = [&](Byte operand) {
    return operand != kNone && tensor_of(operand).state == TensorState::poisoned;
  };
  return state_->lost || std::ranges::any_of(plan_.record(lane, record).in, has_poison);
}

void WindowModel::fail(int lane, Byte index) {
  LaneNow& a = lane_of(lane);
  const WindowRecord& record = plan_.record(lane, index);
  say([&] { return plan_.text_of(lane, index) + " fails"; });
  a.acted |= bit_of(index);
  a.failed |= bit_of(index);
  if (record.out != kNone) {
    tensor_of(record.out) = {TensorState::poisoned, kNone};
    wake_slot_waits(record.out);
  }
  if (record.takes) {
    release(record.in[0]);
  }
}

void WindowModel::run_drop(int lane, Byte record) {
  LaneNow& a = lane_of(lane);
  const Byte tensor = plan_.record(lane, record).in[0];
  a.done |= bit_of(record);
  if (are_done(tensor, lane, lane, false)) {
    release(tensor);
  } else {
    say([&] { return plan_.text_of(lane, record) + " waits for the other lane"; });
    a.deferred |= bit_of(record);
  }
}

// A lane that waits for a record cuts the window that holds it before it registers its watcher,
// because an end notifies only registered watchers. No lane waits for a drop.
bool WindowModel::are_done(Byte tensor, int lane, int watcher, bool lane_waits) {
  for (int other = 0; other < kLanes; ++other) {
    const Byte awaited = other == lane ? Byte{0} : plan_.awaited(tensor, lane, other);
    if (done_until(other) >= awaited) {
      continue;
    }
    LaneNow& user = lane_of(other);
    const bool is_looked_at = user.consumed + user.looked >= awaited;
    const bool cuts = lane_waits && is_looked_at && rules_.watching_cuts;
    if (cuts && rules_.cut_comes_first) {
      end_window(other, End::cut, "it is watched");
      if (done_until(other) >= awaited) {
        continue;
      }
    }
    user.watchers |= bit_of(watcher);
    if (lane_waits && !is_looked_at) {
      user.watched = std::min(user.watched, awaited);
    } else if (cuts && !rules_.cut_comes_first) {
      end_window(other, End::cut, "it is watched");
    }
    return false;
  }
  return true;
}

Byte WindowModel::done_until(int lane) const {
  const LaneNow& a = lane_of(lane);
  return a.group_from > 0 ? std::min(a.consumed, a.group_from) : a.consumed;
}

void WindowModel::settle(int lane) {
  LaneNow& a = lane_of(lane);
  for (int i = 0; i < kMostRecords; ++i) {
    if (has(a.deferred, i) && are_done(plan_.record(lane, i).in[0], lane, lane, false)) {
      a.deferred &= static_cast<Byte>(~bit_of(i));
      release(plan_.record(lane, i).in[0]);
    }
  }
}

void WindowModel::settle_outside() {
  if (state_->outside == 2 && are_done(plan_.dropped_outside, kOutside, kOutside, false)) {
    state_->outside = 3;
    release(plan_.dropped_outside);
  }
}

void WindowModel::notify_watchers(int lane) {
  lane_of(lane).watched = kNone;
  const Byte watchers = std::exchange(lane_of(lane).watchers, Byte{0});
  if (has(watchers, kOutside)) {
    settle_outside();
  }
  for (int other = 0; other < kLanes; ++other) {
    if (!has(watchers, other)) {
      continue;
    }
    settle(other);
    LaneNow& watcher = lane_of(other);
    if (watcher.park == Park::lanes) {
      unpark(other);
    }
    if (watcher.deferred == 0 && watcher.orphaned && watcher.consumed == watcher.pushed &&
        !watcher.closed) {
      reclaim(other);  // its turn ends it
    }
  }
}

}  // namespace hearth::model
