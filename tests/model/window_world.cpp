// Events outside the token: producers, readers, the actor's sleep, the device's points, time. A
// push and its ring are one step here; lane_model_test covers their halves.
#include "window_model.hpp"

#include <algorithm>

namespace hearth::model {

WindowModel::WindowModel(const WindowProgram& program, const WindowRules& rules)
    : program_(program), plan_(program), rules_(rules) {}

bool WindowModel::take(WindowState& state, WindowStep step) {
  state_ = &state;
  wrong_.reset();
  const bool does_something = take_step(state, step);
  if (does_something) {
    normalize(state);
  }
  return does_something;
}

bool WindowModel::take_step(WindowState& state, WindowStep step) {
  switch (step) {
    case WindowStep::push0:
    case WindowStep::push1:
      return push(step == WindowStep::push0 ? 0 : 1);
    case WindowStep::borrow0:
    case WindowStep::borrow1:
      return borrow(step == WindowStep::borrow0 ? 0 : 1);
    case WindowStep::sleep0:
    case WindowStep::sleep1:
      return fall_asleep(step == WindowStep::sleep0 ? 0 : 1);
    case WindowStep::deadline0:
    case WindowStep::deadline1:
      return pass_deadline(step == WindowStep::deadline0 ? 0 : 1);
    case WindowStep::linger0:
    case WindowStep::linger1:
      return pass_linger(step == WindowStep::linger0 ? 0 : 1);
    case WindowStep::complete0:
    case WindowStep::complete1:
    case WindowStep::complete2:
      return complete(static_cast<int>(step) - static_cast<int>(WindowStep::complete0));
    case WindowStep::turn0:
    case WindowStep::turn1:
      return turn(step == WindowStep::turn0 ? 0 : 1);
    case WindowStep::pass:
      return pass();
    case WindowStep::actor:
      return step_actor();
    case WindowStep::timer:
      return ring_timer();
    case WindowStep::compile:
      return compile();
    case WindowStep::drop_outside:
      return drop_outside();
    case WindowStep::ask:
      return post_question();
    case WindowStep::lose_patience:
      if (state.ask == Ask::waits && has_ready()) {
        state.ask = Ask::impatient;
        say([] { return std::string("the question has waited for too many turns"); });
        return true;
      }
      return false;
    case WindowStep::stop:
      return post_stop();
    case WindowStep::stop_limit:
      if (state.stop == Stop::runs && state.actor != Actor::stopped) {
        state.stop = Stop::limit_passed;
        say([] { return std::string("the limit of the shutdown passes"); });
        return true;
      }
      return false;
  }
  return false;
}

WindowState WindowModel::start() const {
  WindowState state;
  state.content.fill(kNone);
  for (int i = 0; i < plan_.given; ++i) {
    const auto at = static_cast<std::size_t>(i);
    state.tensors.at(at) = {TensorState::live, static_cast<Byte>(i)};
    state.content.at(at) = static_cast<Byte>(i);
  }
  return state;
}

// ---- producers ----

// A push to a closed device is refused, except one that had checked before.
bool WindowModel::push(int lane) {
  LaneNow& a = lane_of(lane);
  if (a.producer != Producer::running) {
    return false;
  }
  if (a.pushed == plan_.length(lane)) {
    return end_producer(lane);
  }
  const auto index = static_cast<std::size_t>(a.pushed);
  const bool is_closed = state_->stop != Stop::none;
  const bool can =
      lane_of(1 - lane).pushed >= plan_.needs.at(static_cast<std::size_t>(lane)).at(index);
  if (is_closed && (!can || a.pushed_late)) {
    return end_producer(lane);
  }
  if (!can) {
    return false;
  }
  if (a.pushed - a.consumed == program_.ring) {
    a.producer = Producer::wants_room;
    say([&] { return name_of(lane) + " is full"; });
    return true;
  }
  a.pushed_late = is_closed;
  say([&] { return plan_.text_of(lane, a.pushed) + " is pushed"; });
  if (plan_.record(lane, a.pushed).waits) {
    a.producer = Producer::wants_value;
  }
  ++a.pushed;
  ring(lane);
  return true;
}

bool WindowModel::end_producer(int lane) {
  if (program_.threads_stay && state_->stop == Stop::none) {
    return false;
  }
  say([&] { return "the thread of " + name_of(lane) + " ends"; });
  lane_of(lane).producer = Producer::ended;
  lane_of(lane).orphaned = true;
  ring(lane);
  return true;
}

// The exchange of `rung`, and the link into the doorbell if the exchange requires it.
void WindowModel::ring(int lane) {
  LaneNow& a = lane_of(lane);
  if (a.rung) {
    return;
  }
  a.rung = true;
  if (state_->actor == Actor::stopped) {
    reject_by_producer(lane);
    return;
  }
  require(!a.linked, name_of(lane) + " is linked into the doorbell twice");
  a.linked = true;
  wake_actor();
}

// The doorbell has no consumer any more: the ringing thread becomes the lane's consumer.
void WindowModel::reject_by_producer(int lane) {
  LaneNow& a = lane_of(lane);
  for (; a.consumed < a.pushed; ++a.consumed) {
    a.rejected |= bit_of(a.consumed);
  }
  a.rung = false;
}

bool WindowModel::has_room(int lane) const {
  return lane_of(lane).pushed - lane_of(lane).consumed <= program_.ring / 2;
}

bool WindowModel::is_over(int lane, int record) const {
  const LaneNow& a = lane_of(lane);
  return has(a.done | a.failed | a.rejected, record);
}

// On a host device a waiting thread may run the loop; with little time left it leaves that to the
// actor.
bool WindowModel::borrow(int lane) {
  LaneNow& a = lane_of(lane);
  const bool wants = a.producer == Producer::wants_room || a.producer == Producer::wants_value;
  if (!wants || !program_.is_host || !state_->token_free) {
    return false;
  }
  state_->token_free = false;
  a.producer =
      a.producer == Producer::wants_room ? Producer::borrows_room : Producer::borrows_value;
  say([&] { return "the thread of " + name_of(lane) + " takes the token"; });
  return true;
}

bool WindowModel::fall_asleep(int lane) {
  LaneNow& a = lane_of(lane);
  if (a.producer == Producer::running && state_->stop != Stop::none) {
    return end_producer(lane);  // its push is refused
  }
  if (a.producer == Producer::sleeps_value) {
    return wake_reader(lane);
  }
  if (a.producer == Producer::wants_room) {
    a.producer_announced = !has_room(lane);
    a.producer = a.producer_announced ? Producer::sleeps_room : Producer::running;
  } else if (a.producer == Producer::wants_value) {
    a.producer = is_over(lane, a.pushed - 1) ? Producer::running : Producer::sleeps_value;
  } else {
    return false;
  }
  say([&] {
    return "the thread of " + name_of(lane) +
           (a.producer == Producer::running ? " goes on" : " sleeps");
  });
  wake_actor();
  return true;
}

bool WindowModel::wake_reader(int lane) {
  LaneNow& a = lane_of(lane);
  if (!is_over(lane, a.pushed - 1)) {
    return false;
  }
  a.producer = Producer::running;
  say([&] { return "the thread of " + name_of(lane) + " has its value"; });
  return true;
}

bool WindowModel::pass_deadline(int lane) {
  LaneNow& a = lane_of(lane);
  if (!program_.has_deadlines || a.gave_up) {
    return false;
  }
  if (a.park == Park::slot && has_holder() &&
      plan_.record(lane, a.consumed + a.looked).kind != Kind::adopt) {
    a.has_expired = true;
    say([&] { return name_of(lane) + " has waited for too long"; });
    unpark(lane);
    return true;
  }
  if (a.producer == Producer::borrows_value) {
    a.gave_up = true;
  } else if (a.producer == Producer::wants_value || a.producer == Producer::sleeps_value) {
    a.producer = Producer::running;
  } else {
    return false;
  }
  say([&] { return "the deadline of the reader of " + name_of(lane) + " passes"; });
  return true;
}

// ---- the actor's thread ----

// Rings and messages wake the actor if no thread holds the token, as recorded in the doorbell.
void WindowModel::wake_actor() {
  Actor& actor = state_->actor;
  if (state_->token_free && actor != Actor::holds && actor != Actor::stopped) {
    actor = Actor::awake;
  }
}

bool WindowModel::has_rung() const {
  const auto is_linked = [](const LaneNow& lane) { return lane.linked; };
  const auto is_complete = [](const BatchNow& batch) { return batch.phase == Phase::complete; };
  return std::ranges::any_of(state_->lanes, is_linked) ||
         std::ranges::any_of(state_->batches, is_complete) || state_->ask == Ask::posted ||
         state_->stop == Stop::posted || state_->outside == 1;
}

// The token's holder watches the deadlines, so the actor has a timer only while the token is free.
bool WindowModel::step_actor() {
  Actor& actor = state_->actor;
  if (actor == Actor::awake && state_->token_free) {
    state_->token_free = false;
    actor = Actor::holds;
    say([] { return std::string("the actor takes the token"); });
    return true;
  }
  if (actor != Actor::awake && actor != Actor::drowsy) {
    return false;
  }
  if (state_->token_free && has_rung()) {
    actor = Actor::awake;
    return true;
  }
  const auto lingers = [](const LaneNow& lane) { return lane.linger != Linger::none; };
  const bool has_deadline = state_->stop != Stop::none ||
                            (rules_.actor_has_timer && std::ranges::any_of(state_->lanes, lingers));
  actor = state_->token_free && has_deadline ? Actor::asleep_timed : Actor::asleep;
  say([&] {
    return std::string("the actor sleeps") +
           (actor == Actor::asleep_timed ? " until a deadline" : " until it is woken");
  });
  return true;
}

bool WindowModel::ring_timer() {
  const auto is_over = [](const LaneNow& lane) { return lane.linger == Linger::passed; };
  if (state_->actor != Actor::asleep_timed || !state_->token_free ||
      (state_->stop != Stop::limit_passed && !std::ranges::any_of(state_->lanes, is_over))) {
    return false;
  }
  state_->actor = Actor::awake;
  say([] { return std::string("the actor's timer wakes it"); });
  return true;
}

// ---- time, the device, messages ----

bool WindowModel::pass_linger(int lane) {
  if (lane_of(lane).linger != Linger::armed) {
    return false;
  }
  lane_of(lane).linger = Linger::passed;
  say([&] { return "the linger of " + name_of(lane) + " passes"; });
  return true;
}

bool WindowModel::complete(int index) {
  BatchNow& batch = state_->batches.at(static_cast<std::size_t>(index));
  if (batch.phase != Phase::running) {
    return false;
  }
  for (int i = 0; i < kBatches; ++i) {
    const Phase phase = state_->batches.at(static_cast<std::size_t>(i)).phase;
    if (has(batch.after, i) && phase == Phase::running) {
      return false;
    }
  }
  say([&] { return "the device completes a batch of " + name_of(batch.lane); });
  run_batch(batch);
  batch.phase = Phase::complete;
  wake_actor();
  return true;
}

bool WindowModel::compile() {
  const Byte lane = state_->job_lane;
  if (lane == kNone) {
    return false;
  }
  require(lane_of(lane).consumed <= state_->job_from,
          "the planner reads a record of " + name_of(lane) + " that has left the ring");
  state_->job_lane = kNone;
  state_->job_from = 0;
  return true;
}

bool WindowModel::drop_outside() {
  const Byte tensor = plan_.dropped_outside;
  if (tensor == kNone || state_->outside != 0 || state_->stop != Stop::none) {
    return false;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    if (lane_of(lane).pushed < plan_.awaited(tensor, kOutside, lane)) {
      return false;
    }
  }
  state_->outside = 1;
  say([&] { return "a thread without a lane drops " + plan_.name_of(tensor); });
  wake_actor();
  return true;
}

bool WindowModel::post_question() {
  if (!(program_.can_ask || program_.can_restart) || state_->ask != Ask::none ||
      state_->stop != Stop::none) {
    return false;
  }
  state_->ask = Ask::posted;
  say([&] {
    return std::string(program_.can_restart ? "a restart is asked for" : "a question is asked");
  });
  wake_actor();
  return true;
}

bool WindowModel::post_stop() {
  if (!program_.can_stop || state_->stop != Stop::none) {
    return false;
  }
  state_->stop = Stop::posted;
  say([] { return std::string("the device closes, and its actor is told to stop"); });
  wake_actor();
  return true;
}

}  // namespace hearth::model
