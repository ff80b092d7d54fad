// How the actor lets like ops of several lanes run as one (row_join.hpp).
#include "device_actor.hpp"

namespace hearth {
namespace {

OpView front_of(const LaneState& lane) {
  return OpView(*lane.lane->front(), lane.lane->front_blob());
}

}  // namespace

bool DeviceActor::hold_for_join(LaneState& lane, const OpView& op) {
  const std::int64_t most = lane.in_group || is_over(lane) ? 1 : dispatch_.joinable_calls(op);
  if (most <= 1) {
    return false;
  }
  RowJoin::note_joinable(lane);
  if (!join_.has_company()) {
    return false;
  }
  join_.hold(lane, most);
  lane.is_ready = true;  // the join has it: nobody else queues it
  return true;
}

bool DeviceActor::run_held(bool is_enough) {
  if (join_.is_empty()) {
    return false;
  }
  if (is_enough) {
    for (LaneState* lane : join_.take_all()) {
      lane->is_ready = false;
      make_ready(*lane);
    }
    return false;
  }
  if (!ready_.empty() && !join_.is_due()) {
    return false;
  }
  run_join_group();
  return true;
}

void DeviceActor::run_join_group() {
  const std::vector<LaneState*>& lanes = join_.take_group([this](LaneState& a, LaneState& b) {
    return !is_over(a) && !is_over(b) && dispatch_.are_alike(front_of(a), front_of(b));
  });
  const std::size_t run = lanes.size() > 1 ? dispatch_.run_joined(lanes) : 0;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    LaneState& lane = *lanes[i];
    lane.is_ready = false;
    // What did not run with the others runs alone, with an outcome of its own.
    if (i < run || consume(lane, front_of(lane)) == Step::consumed) {
      ++records_;
      lane.has_expired = false;
      lane.lane->pop();
    }
    make_ready(lane);
  }
  after_record();
}

}  // namespace hearth
