// The loop of the token's holder: rings and points, duties, turns, and the end. The search chooses
// the lane of the next turn, its number of records, and the events in the middle of it.
#include "window_model.hpp"

#include <algorithm>

namespace hearth::model {

int WindowModel::borrower() const {
  for (int lane = 0; lane < kLanes; ++lane) {
    const Producer producer = lane_of(lane).producer;
    if (producer == Producer::borrows_room || producer == Producer::borrows_value) {
      return lane;
    }
  }
  return -1;
}

bool WindowModel::has_holder() const {
  return !state_->token_free && state_->actor != Actor::stopped;
}

bool WindowModel::has_ready() const {
  return std::ranges::any_of(state_->lanes, &LaneNow::ready);
}
bool WindowModel::has_window() const {
  return std::ranges::any_of(state_->lanes, [](const LaneNow& lane) { return lane.looked > 0; });
}
bool WindowModel::has_flight() const {
  return std::ranges::any_of(state_->batches,
                             [](const BatchNow& batch) { return batch.phase != Phase::free; });
}
bool WindowModel::has_parked(Park why) const {
  return std::ranges::any_of(state_->lanes, [&](const LaneNow& lane) { return lane.park == why; });
}

bool WindowModel::is_idle() const {
  return !has_ready() && !(rules_.windows_are_work && has_window()) &&
         !(rules_.flight_is_work && has_flight());
}

bool WindowModel::is_enough() const {
  const int lane = borrower();
  if (lane < 0) {
    return false;
  }
  const LaneNow& a = lane_of(lane);
  return a.producer == Producer::borrows_room ? has_room(lane)
                                              : a.gave_up || is_over(lane, a.pushed - 1);
}

bool WindowModel::pass() {
  if (!has_holder()) {
    return false;
  }
  if (state_->turn_of != kNone) {
    end_turn(std::exchange(state_->turn_of, kNone));
    return true;
  }
  const bool had_rung = has_rung();
  collect();
  if (close_windows_for_duties() || serve_memory_waits() || end_lingers() || answer() ||
      finish_stop()) {
    return true;
  }
  if (is_enough() || !has_ready() || state_->ask == Ask::impatient) {
    leave();
    return true;
  }
  return had_rung;
}

bool WindowModel::turn(int lane) {
  if (!has_holder()) {
    return false;
  }
  LaneNow& a = lane_of(lane);
  const bool begins = state_->turn_of == kNone;
  if (begins ? !a.ready || is_enough() || state_->ask == Ask::impatient : state_->turn_of != lane) {
    return false;
  }
  a.ready = false;
  if (a.consumed + a.looked < a.pushed) {
    consume(lane);
  }
  const bool can_go_on = a.park == Park::none && a.consumed + a.looked < a.pushed;
  state_->turn_of = can_go_on ? static_cast<Byte>(lane) : kNone;
  if (!can_go_on) {
    end_turn(lane);
  }
  return true;
}

void WindowModel::collect() {
  for (BatchNow& batch : state_->batches) {
    if (batch.phase == Phase::complete) {
      retire(batch);
    }
  }
  if (state_->ask == Ask::posted) {
    state_->ask = Ask::waits;
    if (program_.can_restart) {
      lose();
    }
  }
  if (state_->stop == Stop::posted) {
    state_->stop = Stop::runs;
  }
  if (state_->outside == 1) {
    state_->outside = 2;
    settle_outside();
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane_of(lane).linked) {
      lane_of(lane).linked = false;
      make_ready(lane);
    }
  }
}

// Frees the blocks of the batch; its readers get their values.
void WindowModel::retire(BatchNow& batch) {
  LaneNow& a = lane_of(batch.lane);
  for (int i = 0; i < kMostRecords; ++i) {
    if (has(batch.records, i) && plan_.record(batch.lane, i).kind != Kind::op) {
      a.done |= bit_of(i);
    }
  }
  const auto slot = static_cast<int>(&batch - state_->batches.data());
  for (BatchNow& other : state_->batches) {
    other.after &= static_cast<Byte>(~bit_of(slot));
  }
  batch = {};
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane_of(lane).park == Park::flight) {
      unpark(lane);
    }
  }
  if (rules_.retiring_wakes) {
    wake_memory_waits();
  }
}

// ---- duties ----

bool WindowModel::close_windows_for_duties() {
  const bool asked = state_->ask == Ask::waits || state_->ask == Ask::impatient;
  if (!rules_.duties_close_windows || !(asked || state_->stop != Stop::none)) {
    return false;
  }
  bool has_closed = false;
  for (int lane = 0; lane < kLanes; ++lane) {
    const bool is_open = lane_of(lane).looked > 0;
    if (is_open && (lane_of(lane).linger != Linger::none || state_->ask == Ask::impatient)) {
      end_window(lane, End::cut, "the device has a duty");
      has_closed = true;
    }
  }
  return has_closed;
}

// While a lane waits for memory no window stays open for lack of records, because its drops may
// release the memory. If nothing can move, the youngest lane fails.
bool WindowModel::serve_memory_waits() {
  if (!has_parked(Park::memory) || has_ready()) {
    return false;
  }
  if (rules_.shortage_cuts && has_window()) {
    for (int lane = 0; lane < kLanes; ++lane) {
      end_window(lane, End::cut, "memory is short");
    }
    return true;
  }
  if (!is_idle()) {
    return false;
  }
  const int youngest = lane_of(state_->last_short).park == Park::memory ? state_->last_short
                                                                        : 1 - state_->last_short;
  lane_of(youngest).must_run = !rules_.shortage_asks_again;
  say([&] { return "nothing moves any more, so " + name_of(youngest) + " must run or fail"; });
  unpark(youngest);
  return true;
}

// Ends a linger that blocks other work.
bool WindowModel::end_lingers() {
  for (int lane = 0; lane < kLanes; ++lane) {
    LaneNow& a = lane_of(lane);
    if (a.linger != Linger::passed) {
      continue;
    }
    const std::string linger = "waits for the linger of " + name_of(lane);
    const LaneNow& other = lane_of(1 - lane);
    const bool is_to_come = a.watched != kNone && a.watched > a.pushed;
    require(other.park != Park::lanes || !has(a.watchers, 1 - lane) || is_to_come,
            "a watcher " + linger);
    require(a.consumed + a.looked == a.pushed, "a record " + linger);
    require(!a.producer_announced, "a producer without room " + linger);
    require(!has_parked(Park::memory), "a lane without memory " + linger);
    require(other.park != Park::slot || tensor_of(other.awaited).state != TensorState::pending,
            name_of(1 - lane) + " " + linger);
    require(state_->ask != Ask::waits && state_->stop == Stop::none, "a duty " + linger);
    if (rules_.idle_cuts) {
      end_window(lane, End::cut, "its linger is over");
    } else {
      a.linger = Linger::armed;
    }
    return true;
  }
  return false;
}

bool WindowModel::answer() {
  const bool is_due = (state_->ask == Ask::waits && is_idle()) ||
                      (state_->ask == Ask::impatient && !has_window() && !has_flight());
  if (!is_due) {
    return false;
  }
  require(!has_window(), "a question is answered while a window is open");
  require(!has_flight(), "a question is answered while a batch is in flight");
  state_->ask = Ask::answered;
  say([] { return std::string("the question is answered"); });
  if (program_.can_restart) {
    restart();
  }
  return true;
}

void WindowModel::lose() {
  state_->lost = true;
  for (int lane = 0; lane < kLanes; ++lane) {
    if (rules_.duties_close_windows) {
      end_window(lane, End::cut, "the device is lost");
    }
    if (lane_of(lane).park == Park::memory || lane_of(lane).park == Park::flight) {
      unpark(lane);
    }
  }
}

void WindowModel::restart() {
  for (TensorNow& tensor : state_->tensors) {
    require(tensor.state != TensorState::pending, "a window outlives its device's generation");
    if (tensor.state == TensorState::live) {
      tensor = {TensorState::poisoned, kNone};
    }
  }
  state_->content.fill(kNone);
  state_->lost = false;
}

bool WindowModel::finish_stop() {
  const auto is_parked = [](const LaneNow& lane) { return lane.park != Park::none; };
  const bool drained = is_idle() && !std::ranges::any_of(state_->lanes, is_parked);
  const bool is_late = state_->stop == Stop::limit_passed && !has_flight();
  if (state_->actor != Actor::holds || state_->stop == Stop::none || !(drained || is_late)) {
    return false;
  }
  say([] { return std::string("the actor stops"); });
  require(!has_flight(), "the actor stops while a batch is in flight");
  // Open groups end with the actor, but only in lanes that the actor holds: any other lane's
  // producer is its consumer now.
  for (int lane = 0; lane < kLanes; ++lane) {
    LaneNow& a = lane_of(lane);
    const bool is_here = a.ready || a.linked || a.park != Park::none;
    const Byte end = is_here ? a.pushed : a.consumed;
    for (Byte i = a.group_from > 0 ? a.group_from : a.consumed; i < end; ++i) {
      a.rejected |= is_over(lane, i) ? Byte{0} : bit_of(i);
    }
    a.group_from = 0;
    if (!is_here) {
      continue;
    }
    a.consumed = a.pushed;
    a.looked = 0;
    a.ready = a.linked = a.rung = false;
    a.park = Park::none;
    a.awaited = kNone;
    a.linger = Linger::none;
    look_for_producer(lane);
  }
  if (state_->ask != Ask::none) {
    state_->ask = Ask::answered;
  }
  state_->actor = Actor::stopped;
  return true;
}

// ---- the end of a turn ----

void WindowModel::end_turn(int lane) {
  LaneNow& a = lane_of(lane);
  settle(lane);
  if (rules_.turn_end_looks && a.consumed < a.pushed) {
    look_for_producer(lane);
  }
  if (a.park != Park::none || a.ready) {
    return;
  }
  if (a.consumed + a.looked < a.pushed) {
    a.ready = true;
    return;
  }
  finish_turn(lane);
}

// The holder gives the lane back, though its window may be open: the next push rings.
void WindowModel::finish_turn(int lane) {
  LaneNow& a = lane_of(lane);
  a.rung = a.looked > 0 && !rules_.linger_gives_lane_back;
  if (a.orphaned && a.looked > 0 && rules_.orphans_issue) {
    end_window(lane, End::cut, "its stream is gone");
    if (a.consumed == a.pushed && a.deferred == 0) {
      close_lane(lane);
    }
    return;
  }
  if (a.orphaned) {
    if (a.deferred == 0) {
      close_lane(lane);
    }
    return;
  }
  if (a.looked > 0) {
    a.linger = Linger::armed;
    say([&] { return name_of(lane) + " lingers with its window open"; });
  }
}

void WindowModel::close_lane(int lane) {
  LaneNow& a = lane_of(lane);
  require(a.consumed == a.pushed, name_of(lane) + " ends with records that nobody ran");
  a.closed = true;
  say([&] { return name_of(lane) + " ends"; });
  notify_watchers(lane);
}

// ---- lanes ----

void WindowModel::make_ready(int lane) {
  LaneNow& a = lane_of(lane);
  a.linger = Linger::none;
  if (a.park == Park::none && !a.closed) {
    a.ready = true;
  }
}

// A lane that lingers is its producer's to ring: the actor takes it as the producer would.
void WindowModel::reclaim(int lane) {
  LaneNow& a = lane_of(lane);
  if (!rules_.takes_lane_back) {
    make_ready(lane);
  } else if (!a.rung) {
    a.rung = true;
    make_ready(lane);
  }
}

void WindowModel::park(int lane, Park why, Byte awaited) {
  LaneNow& a = lane_of(lane);
  a.park = why;
  a.awaited = awaited;
  if (why == Park::memory) {
    state_->last_short = static_cast<Byte>(lane);
  }
  say([&] {
    const std::string parks = name_of(lane) + " parks for ";
    switch (why) {
      case Park::slot:
        return parks + plan_.name_of(awaited) + ", which is not made yet";
      case Park::lanes:
        return parks + "the other lane's uses";
      case Park::memory:
        return parks + "memory";
      default:
        return parks + "work in flight";
    }
  });
}

void WindowModel::unpark(int lane) {
  LaneNow& a = lane_of(lane);
  if (a.park == Park::none) {
    return;
  }
  a.park = Park::none;
  a.awaited = kNone;
  make_ready(lane);
}

// A borrower leaves remaining work to the actor's thread.
void WindowModel::leave() {
  const int lane = borrower();
  const auto lingers = [](const LaneNow& other) { return other.linger != Linger::none; };
  const bool leaves_duty =
      has_ready() ||
      (lane >= 0 && (state_->stop != Stop::none || state_->ask == Ask::waits ||
                     (rules_.leaving_wakes && std::ranges::any_of(state_->lanes, lingers))));
  state_->token_free = true;
  if (lane < 0) {
    state_->actor = Actor::drowsy;
    say([] { return std::string("the actor gives the token back"); });
  } else {
    LaneNow& a = lane_of(lane);
    const bool waited_for_room = a.producer == Producer::borrows_room;
    if (is_enough()) {
      a.producer = Producer::running;
    } else if (waited_for_room) {
      a.producer_announced = true;
      a.producer = Producer::sleeps_room;
    } else {
      a.producer = Producer::sleeps_value;
    }
    a.gave_up = false;
    say([&] { return "the thread of " + name_of(lane) + " gives the token back"; });
  }
  if (leaves_duty || (lane >= 0 && lane_of(lane).producer == Producer::sleeps_room)) {
    wake_actor();
  }
}

}  // namespace hearth::model
