#include "join_runner.hpp"

#include "runtime/device/lanes/window_runner.hpp"

namespace hearth {
namespace {

OpView front_of(const LaneState& lane) {
  return OpView(*lane.lane->front(), lane.lane->front_blob());
}

}  // namespace

bool JoinRunner::hold(LaneState& lane, const OpView& op) {
  const std::int64_t most =
      lane.in_group || Records::is_expired(lane) ? 1 : dispatch_.joinable_calls(op);
  if (most <= 1) {
    return false;
  }
  RowJoin::reset_turns_without_join(lane);
  if (!queues_.join().has_join_candidates()) {
    return false;
  }
  queues_.join().hold(lane, most);
  lane.is_ready = true;  // the join holds it: it is queued nowhere else
  return true;
}

void JoinRunner::release_all() {
  for (LaneState* lane : queues_.join().take_all()) {
    lane->is_ready = false;
    queues_.make_ready(*lane);
  }
}

// A lane that parks here leaves no producer asleep. Its turn looked for one when the join took the
// lane, and no record has left it since, so there is no additional room.
void JoinRunner::run_group() {
  const std::vector<LaneState*>& lanes =
      queues_.join().take_group([this](LaneState& a, LaneState& b) {
        return !Records::is_expired(a) && !Records::is_expired(b) &&
               dispatch_.are_alike(front_of(a), front_of(b));
      });
  const std::size_t run = lanes.size() > 1 ? dispatch_.run_joined(lanes) : 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    LaneState& lane = *lanes[i];
    lane.is_ready = false;
    // An op that did not run with the others runs alone, with its own outcome.
    if (i < run || records_.consume(lane, front_of(lane)) == Step::consumed) {
      WindowRunner::on_record_done(lane, *lane.lane->front());  // as for a lane that was not held
      queues_.finish_record(lane);
    }
    queues_.make_ready(lane);
  }
}

}  // namespace hearth
