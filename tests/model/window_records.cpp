// The effect of a lane's records at their turn: joining the window, its ends, and records that run
// alone.
#include "window_model.hpp"

#include <algorithm>

namespace hearth::model {

void WindowModel::consume(int lane) {
  LaneNow& a = lane_of(lane);
  const auto record = static_cast<Byte>(a.consumed + a.looked);
  const Kind kind = plan_.record(lane, record).kind;
  if (std::exchange(a.has_expired, false)) {
    fail_front(lane, record);
    return;
  }
  if (a.group_from > 0 && !is_boundary(kind)) {
    pop(lane, 1);  // it moves to the group
    return;
  }
  if (is_boundary(kind) && a.looked > 0) {
    end_window(lane, End::boundary, "a program boundary follows");
    if (a.consumed != record) {
      return;  // its ops run one by one first
    }
  }
  say([&] { return plan_.text_of(lane, record) + " has its turn"; });
  Step step = Step::consumed;
  switch (kind) {
    case Kind::op:
      step = consume_op(lane, record);
      break;
    case Kind::drop:
      step = consume_drop(lane, record);
      break;
    case Kind::read:
    case Kind::sync:
      step = consume_read(lane, record);
      break;
    case Kind::adopt:
      step = consume_adopt(lane, record);
      break;
    case Kind::group_begin:
      a.group_from = static_cast<Byte>(record + 1);
      a.done |= bit_of(record);
      break;
    case Kind::group_end:
      step = consume_group_end(lane, record);
      break;
  }
  if (step == Step::consumed) {
    count(lane, record);
    pop(lane, 1);
  }
}

// The record whose wait expired is the lane's front: the device knows no other.
void WindowModel::fail_front(int lane, Byte waited) {
  LaneNow& a = lane_of(lane);
  const Byte front = a.consumed;
  require(front == waited,
          plan_.text_of(lane, front) + " fails for want of what " + plan_.text_of(lane, waited) +
              " waits for");
  if (plan_.record(lane, front).kind == Kind::group_end) {
    static_cast<void>(end_group(lane, front, true));
  } else {
    fail(lane, front);
  }
  a.may_plan = a.may_plan && !rules_.failure_cuts;
  count(lane, front);
  pop(lane, 1);
}

WindowModel::Step WindowModel::consume_op(int lane, Byte record) {
  LaneNow& a = lane_of(lane);
  if (has(a.shown, record) && rules_.shown_are_done) {
    return Step::consumed;
  }
  if (record < a.single_until) {
    return run_single(lane, record);
  }
  const Byte uncreated = unborn_operand(lane, record);
  if (a.consumed + a.looked != record) {
    return Step::put_off;  // a cut elsewhere returned to this lane
  }
  const bool leaves_window =
      uncreated != kNone ? rules_.park_ends_window
                         : is_poisoned(static_cast<Byte>(lane), record) && rules_.poison_stays_out;
  if (leaves_window && a.looked > 0) {
    end_window(lane, End::cut, uncreated != kNone ? "it parks" : "poison follows");
    if (a.consumed != record) {
      return Step::put_off;
    }
  }
  if (uncreated != kNone) {
    park(lane, Park::slot, uncreated);
    return Step::parked;
  }
  if (leaves_window) {
    fail(lane, record);
    a.may_plan = a.may_plan && !rules_.failure_cuts;  // poison may depend on timing
    return Step::consumed;
  }
  join(lane, record);
  return Step::joined;
}

// The op's result is pending from now on.
void WindowModel::join(int lane, Byte record) {
  LaneNow& a = lane_of(lane);
  const Byte out = plan_.record(lane, record).out;
  if (may_show(lane, record)) {
    ++a.looked;
    show(lane, record);
    count(lane, record);
    settle_join(lane, record, false);
    return;
  }
  tensor_of(out).state = TensorState::pending;
  say([&] { return plan_.text_of(lane, record) + " joins the window"; });
  ++a.looked;
  count(lane, record);
  const LaneNow& other = lane_of(1 - lane);
  settle_join(lane, record, other.park == Park::slot && other.awaited == out);
}

// Whether a view of a computed tensor may be made now; the owner and maker of the value do not
// matter.
bool WindowModel::may_show(int lane, Byte record) const {
  const WindowRecord& view = plan_.record(lane, record);
  return view.shows && !(view.takes && rules_.last_uses_show_not) &&
         tensor_of(view.in[0]).state == TensorState::live;
}

// Its use of the tensor is over, though other lanes count it when the record leaves.
void WindowModel::show(int lane, Byte record) {
  LaneNow& a = lane_of(lane);
  const WindowRecord& view = plan_.record(lane, record);
  say([&] { return plan_.text_of(lane, record) + " is made"; });
  a.acted |= bit_of(record);
  a.done |= bit_of(record);
  a.shown |= a.looked > 0 ? bit_of(record) : Byte{0};
  tensor_of(view.out) = {TensorState::live, tensor_of(view.in[0]).block};
  if (view.takes) {
    release(view.in[0]);
  }
  if (rules_.showing_wakes || a.looked == 0) {
    wake_slot_waits(view.out);
  }
}

// Watchers are notified when the turn ends, and check again if they wait for a later record.
void WindowModel::settle_join(int lane, Byte record, bool is_awaited) {
  LaneNow& a = lane_of(lane);
  const bool is_reached = record + 1 >= a.watched;
  const bool is_watched = is_reached && a.watched > a.consumed;
  if (rules_.watched_join_cuts && a.looked > 0 && (is_watched || is_awaited)) {
    end_window(lane, End::cut, "somebody waits for it");
  }
  if (is_reached) {
    a.watched = kNone;
  }
}

WindowModel::Step WindowModel::consume_drop(int lane, Byte record) {
  LaneNow& a = lane_of(lane);
  const bool waits_in_window = a.looked > 0;
  if (waits_in_window) {
    if (!rules_.drops_are_events) {
      run_drop(lane, record);
    }
    say([&] { return plan_.text_of(lane, record) + " waits in the window"; });
    ++a.looked;
    count(lane, record);
    settle_join(lane, record, false);
    return Step::joined;
  }
  run_drop(lane, record);
  return Step::consumed;
}

WindowModel::Step WindowModel::consume_read(int lane, Byte record) {
  const Byte uncreated = unborn_operand(lane, record);
  if (uncreated != kNone) {
    park(lane, Park::slot, uncreated);
    return Step::parked;
  }
  if (is_poisoned(static_cast<Byte>(lane), record)) {
    fail(lane, record);
    return Step::consumed;
  }
  if (issue(lane, bit_of(record), 0) == Park::flight) {
    park(lane, Park::flight, kNone);
    return Step::parked;
  }
  return Step::consumed;
}

WindowModel::Step WindowModel::consume_adopt(int lane, Byte record) {
  const Byte tensor = plan_.record(lane, record).in[0];
  const Byte uncreated = unborn_operand(lane, record);
  if (uncreated != kNone) {
    park(lane, Park::slot, uncreated);
    return Step::parked;
  }
  if (!are_done(tensor, lane, lane, true)) {
    park(lane, Park::lanes, kNone);
    return Step::parked;
  }
  lane_of(lane).done |= bit_of(record);
  return Step::consumed;
}

// Everything that the group needs is computed before its first op runs.
WindowModel::Step WindowModel::consume_group_end(int lane, Byte record) {
  LaneNow& a = lane_of(lane);
  RecordSet ops = 0;
  bool has_poison = state_->lost;
  for (Byte i = a.group_from; i < record; ++i) {
    if (plan_.record(lane, i).kind != Kind::op) {
      continue;
    }
    ops |= bit_of(i);
    const Byte uncreated = unborn_operand(lane, i);
    if (uncreated != kNone) {
      park(lane, Park::slot, uncreated);
      return Step::parked;
    }
    has_poison = has_poison || is_poisoned(static_cast<Byte>(lane), i);
  }
  const Park why = has_poison || ops == 0 ? Park::none : issue(lane, ops, 0);
  const bool fails = has_poison || (why == Park::memory && must_fail(lane));
  if (why != Park::none && !fails) {
    park(lane, why, kNone);
    return Step::parked;
  }
  return end_group(lane, record, fails);
}

WindowModel::Step WindowModel::end_group(int lane, Byte record, bool fails) {
  LaneNow& a = lane_of(lane);
  for (Byte i = a.group_from; fails && i < record; ++i) {
    if (plan_.record(lane, i).kind == Kind::op) {
      fail(lane, i);
    }
  }
  const Byte from = std::exchange(a.group_from, Byte{0});
  for (Byte i = from; i < record; ++i) {
    if (plan_.record(lane, i).kind == Kind::drop) {
      run_drop(lane, i);
    }
  }
  (fails ? a.failed : a.done) |= bit_of(record);
  return Step::consumed;
}

// Other lanes may have moved since the lane was chosen to fail.
bool WindowModel::must_fail(int lane) {
  if (!is_idle() && (rules_.shortage_asks_again || !lane_of(lane).must_run)) {
    return false;
  }
  const std::string fails = name_of(lane) + " fails for want of memory while ";
  require(!has_window(), fails + "a window is open");
  require(!has_flight(), fails + "a batch is in flight");
  for (int other = 0; other < kLanes; ++other) {
    require(!lane_of(other).producer_announced || !has_room(other),
            fails + "a producer waits for room that is there");
  }
  return true;
}

WindowModel::Step WindowModel::run_single(int lane, Byte record) {
  const Byte uncreated = unborn_operand(lane, record);
  if (uncreated != kNone) {
    park(lane, Park::slot, uncreated);
    return Step::parked;
  }
  if (is_poisoned(static_cast<Byte>(lane), record) || plan_.record(lane, record).fails) {
    fail(lane, record);
    return Step::consumed;
  }
  if (plan_.record(lane, record).shows) {
    show(lane, record);
    return Step::consumed;
  }
  const Park why = issue(lane, bit_of(record), 0);
  if (why == Park::none) {
    return Step::consumed;
  }
  if (why == Park::memory && must_fail(lane)) {
    fail(lane, record);
    return Step::consumed;
  }
  park(lane, why, kNone);
  return Step::parked;
}

// ---- the window ----

// Each record counts once, when it is first looked at; records that a cut leaves were counted
// already.
void WindowModel::count(int lane, Byte record) {
  LaneNow& a = lane_of(lane);
  if (record < a.counted) {
    return;
  }
  a.counted = static_cast<Byte>(record + 1);
  const Kind kind = plan_.record(lane, record).kind;
  if (is_boundary(kind)) {
    end_window(lane, End::boundary, "a program boundary");
    return;
  }
  if (kind == Kind::op) {
    ++a.ops_since;
  }
  if (kind == Kind::op || rules_.drops_count) {
    ++a.records_since;
  }
  if (a.ops_since == kWindowOps ||
      (rules_.records_end_window && a.records_since == program_.ring / 2)) {
    end_window(lane, End::boundary, "it is full");
  }
}

void WindowModel::end_window(int lane, End end, const char* why) {
  LaneNow& a = lane_of(lane);
  const bool is_open = a.looked > 0;
  if (is_open) {
    say([&] {
      return "the window of " + name_of(lane) + (end == End::cut ? " is cut: " : " ends: ") + why;
    });
  }
  if (is_open && (end == End::boundary ? a.may_plan : !rules_.cuts_make_no_plan)) {
    make_plan(lane);
  }
  if (end == End::boundary) {
    a.may_plan = true;
    a.ops_since = a.records_since = 0;
  } else if (is_open) {
    a.may_plan = a.may_plan && !rules_.no_plan_after_cut;
    if (!rules_.count_goes_on) {
      a.ops_since = a.records_since = 0;
    }
  }
  if (is_open) {
    issue_window(lane);
  }
}

void WindowModel::make_plan(int lane) {
  const LaneNow& a = lane_of(lane);
  const WindowPlan::Range range{a.consumed, static_cast<Byte>(a.consumed + a.looked)};
  const auto& windows = plan_.windows.at(static_cast<std::size_t>(lane));
  say([&] { return "a plan is made for the window of " + name_of(lane); });
  require(std::ranges::find(windows, range) != windows.end(),
          name_of(lane) + " plans records " + std::to_string(range.from + 1) + " to " +
              std::to_string(range.to) + ", which is no window of program order");
  if (!rules_.planner_copies && state_->job_lane == kNone) {
    state_->job_lane = static_cast<Byte>(lane);
    state_->job_from = range.from;
  }
}

// Runs the ops as one if there is a plan and no obstacle, otherwise one by one at the lane's next
// turns.
void WindowModel::issue_window(int lane) {
  LaneNow& a = lane_of(lane);
  a.linger = Linger::none;
  if (try_fused(lane)) {
    return;
  }
  for (int i = a.consumed; i < a.consumed + a.looked; ++i) {
    if (plan_.record(lane, i).kind == Kind::op && !has(a.shown, i)) {
      tensor_of(plan_.record(lane, i).out).state = TensorState::uncreated;
    }
  }
  say([&] { return "the ops in the window of " + name_of(lane) + " run one by one"; });
  a.single_until = static_cast<Byte>(a.consumed + a.looked);
  a.looked = 0;
  reclaim(lane);
}

// The records are popped before their drops run, because drops may look at this lane's progress
// through other lanes.
bool WindowModel::try_fused(int lane) {
  LaneNow& a = lane_of(lane);
  const int end = a.consumed + a.looked;
  RecordSet ops = 0;
  RecordSet virtual_outputs = 0;
  for (int i = a.consumed; i < end; ++i) {
    const WindowRecord& record = plan_.record(lane, i);
    if (record.fails || state_->lost) {
      return false;
    }
    if (record.kind != Kind::op || has(a.shown, i)) {
      continue;
    }
    if (record.shows) {
      return false;  // a view of a result of the window: its ops run one by one here
    }
    ops |= bit_of(i);
    const WindowPlan::Tensor& out = plan_.tensors.at(record.out);
    const bool is_dropped = out.last.lane == lane && out.last.record < end;
    const bool has_uses = plan_.awaited(record.out, lane, 1 - lane) > 0;
    if (is_dropped && !(has_uses && rules_.virtual_needs_no_uses)) {
      virtual_outputs |= bit_of(i);
    }
  }
  if (!program_.has_plans || ops == 0 || issue(lane, ops, virtual_outputs) != Park::none) {
    return false;
  }
  const Byte first = a.consumed;
  pop(lane, std::exchange(a.looked, Byte{0}));
  for (Byte i = first; i < end; ++i) {
    if (plan_.record(lane, i).kind == Kind::drop) {
      run_drop(lane, i);
    }
  }
  return true;
}

// ---- room ----

void WindowModel::pop(int lane, int records) {
  LaneNow& a = lane_of(lane);
  const int before = a.pushed - a.consumed;
  a.consumed = static_cast<Byte>(a.consumed + records);
  a.must_run = false;
  const int left = before - records;
  const bool crosses = before > program_.ring / 2 && left <= program_.ring / 2;
  if (left == 0 || left == program_.ring / 2 || (rules_.pop_looks_when_crossed && crosses)) {
    look_for_producer(lane);
  }
  notify_watchers(lane);
}

void WindowModel::look_for_producer(int lane) {
  LaneNow& a = lane_of(lane);
  if (a.producer_announced && has_room(lane)) {
    a.producer_announced = false;
    a.producer = Producer::running;
    say([&] { return "the producer of " + name_of(lane) + " has room"; });
  }
}

}  // namespace hearth::model
