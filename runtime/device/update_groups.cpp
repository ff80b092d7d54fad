#include "update_groups.hpp"

#include <utility>

#include "runtime/client/tickets.hpp"

namespace hearth {
namespace {

constexpr const char* kUnborn = "an operand from another stream was not ready in time";

ErrorRef cancelled(const char* text) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::cancelled, .text = text});
}

/// The first tensor that an update replaces and that no record has created yet. An abandoned update
/// keeps the old value of that tensor, so it waits for its creation. The gradient does not matter.
Slot* uncreated_replaced(const ResolvedOp& update) {
  constexpr int kGradient = 1;
  for (int i = 0; i < update.input_count(); ++i) {
    if (i != kGradient && is_uncreated(update.slot(i), update.op().input(i))) {
      return &update.slot(i);
    }
  }
  return nullptr;
}

}  // namespace

void UpdateGroups::keep(LaneState& lane, const OpView& op) {
  std::vector<GroupRecord>& kept = op.kind() == OpKind::drop ? lane.group_drops : lane.group;
  kept.push_back({op.record(), RecordBlob({op.blob(), op.record().blob_size_bytes})});
}

Slot* UpdateGroups::find_uncreated(const LaneState& lane) {
  const bool is_refused = lane.group_refusal != nullptr;
  for (const GroupRecord& entry : lane.group) {
    const OpView update(entry.record, entry.blob.data());
    const ResolvedOp resolved = dispatch_.resolve(update, lane.id);
    if (Slot* const uncreated = is_refused ? uncreated_replaced(resolved) : resolved.uncreated()) {
      return uncreated;
    }
  }
  return nullptr;
}

// Resolving settles known outcomes: afterwards each slot is poisoned or valid.
LateFailures UpdateGroups::open_failures(const LaneState& lane) {
  LateFailures open;
  if (in_flight_.is_empty()) {
    return open;
  }
  for (const GroupRecord& entry : lane.group) {
    const ResolvedOp op = dispatch_.resolve(OpView(entry.record, entry.blob.data()), lane.id);
    for (int i = 0; i < op.input_count(); ++i) {
      open = merged(open, op.slot(i).late);
    }
  }
  return open;
}

Waited UpdateGroups::wait_for_failures(LaneState& lane, const OpView& op) {
  const auto* ticket = ticket_in<GroupTicket>(op);
  const bool is_joint = ticket != nullptr && ticket->joint.decision;
  if (!is_joint || (in_flight_.is_empty() && !lane.awaited_work)) {
    return Waited::ended;
  }
  return wait_for_work(lane, ends_of(open_failures(lane)), in_flight_, queues_);
}

void UpdateGroups::report(const OpView& op, LaneState& lane, LateFailures guards) {
  const TimelinePoint newest{in_flight_.issued_ops(), kOpStream};
  if (in_flight_.has_ended(newest)) {
    const auto ticket = take_ticket<GroupTicket>(op);
    notify(endpoint_, "the caller that waits for an update", ticket->finish, nullptr);
  } else {
    auto& end = std::get<GroupEnd>(
        in_flight_.add(newest, GroupEnd{nullptr, std::move(guards), {op.record(), lane.id}}));
    end.ticket = take_ticket<GroupTicket>(op);
  }
}

// Phases: a wait for operands and, in a joint group, for kernels that may spoil them; the ticket,
// without which the group was discarded; the memory of a group that is not refused, or a wait for
// it; then the group runs or is abandoned, and its reader is notified. The lane may come here
// several times, until it does not park.
Step UpdateGroups::finish(LaneState& lane, const OpView& op) {
  Slot* const uncreated = find_uncreated(lane);
  if (uncreated != nullptr && !lane.has_expired) {
    queues_.park_on(*uncreated, lane);
    return Step::parked;
  }
  const bool is_refused = lane.group_refusal != nullptr;
  Waited waited = Waited::ended;
  if (uncreated == nullptr && !is_refused) {
    waited = wait_for_failures(lane, op);
    if (waited == Waited::ended && !lane.prepared && (in_flight_.is_full() || lane.awaited_work)) {
      waited = wait_for_work(lane, in_flight_.room(), in_flight_, queues_);
    }
    if (waited == Waited::parked) {
      return Step::parked;
    }
  }
  Status status(std::exchange(lane.group_refusal, nullptr));
  GroupTicket* const ticket = ticket_in<GroupTicket>(op);
  if (ticket == nullptr) {
    static_cast<void>(end(lane,
                          uncreated != nullptr ? report_.late(op, lane, kUnborn)
                                               : cancelled("the update group was not committed"),
                          nullptr));
    return Step::consumed;
  }
  try {
    if (uncreated != nullptr && !is_refused) {
      status = report_.late(op, lane, kUnborn);
    } else if (waited == Waited::hangs) {
      status = report_.hung(op, lane);
    } else if (!is_refused && prepare(lane, *ticket, status) == Step::parked) {
      return Step::parked;
    }
  } catch (...) {
    status = dispatch_.thrown_by(op, lane.id);
    lane.prepared.reset();
  }
  if (!status.has_value() && !lane.prepared) {
    refuse(endpoint_, *ticket, status.shared_error());
  }
  const bool is_own = !ticket->joint.decision;  // the trainer that decides a joint update knows
  if (!status.has_value() && is_own) {          // failed or abandoned: an update is lost
    status = endpoint_.tables().failures().enter_lost_update(status.shared_error());
  }
  const LateFailures guards = status.has_value() ? open_failures(lane) : nullptr;
  status = end(lane, std::move(status), guards);
  if (status.has_value()) {
    report(op, lane, guards);
    return Step::consumed;
  }
  if (is_own) {
    dispatch_.register_failure(status.shared_error(), lane);
  }
  const auto done = take_ticket<GroupTicket>(op);
  notify(endpoint_, "the caller that waits for an update", done->finish, status.shared_error());
  return Step::consumed;
}

void UpdateGroups::abandon(LaneState& lane, const ErrorRef& error) {
  lane.group_refusal = nullptr;
  static_cast<void>(end(lane, error, nullptr));
}

// Runs the drops last: only now has the group read the tensors that they end.
Status UpdateGroups::end(LaneState& lane, Status status, const LateFailures& guards) {
  lane.in_group = false;
  const std::vector<GroupRecord> group = std::exchange(lane.group, {});
  std::optional<GroupMemory> memory = std::exchange(lane.prepared, {});
  if (status.has_value()) {
    status = dispatch_.run_group(group, *memory, guards, lane);
  } else {
    memory.reset();
    dispatch_.abandon_group(group, lane, status.shared_error());
  }
  for (const GroupRecord& entry : std::exchange(lane.group_drops, {})) {
    try {
      drops_.drop(lane, OpView(entry.record, entry.blob.data()));
    } catch (...) {
      dispatch_.log_mistake("a drop behind an update");  // the update has its outcome
    }
  }
  return status;
}

void UpdateGroups::abandon_open(LaneState& lane) {
  static_cast<void>(end(lane, cancelled("the stream ended inside an update group"), nullptr));
  queues_.unpark_all(dispatch_.woken);
}

// The first call allocates what the group needs and announces it. Later calls follow when the
// decision may have been made.
Step UpdateGroups::prepare(LaneState& lane, GroupTicket& ticket, Status& status) {
  const bool is_new = !lane.prepared;
  const std::shared_ptr<UpdateDecision>& decision = ticket.joint.decision;
  if (is_new && decision && !decision->is_open() && decision->error()) {
    status = decision->error();  // another participant has aborted: no memory is needed
    return Step::consumed;
  }
  if (is_new && get_memory(lane, status) == Step::parked) {
    return Step::parked;
  }
  if (!lane.prepared || !decision) {
    return Step::consumed;
  }
  if (!is_new) {
    abort_if_over(lane, *decision);
  }
  if (decision->is_open()) {
    queues_.park(lane, ParkReason::decision, ticket.joint.deadline);
    if (is_new) {
      announce(lane, ticket.joint);
    }
    return Step::parked;
  }
  status = decision->error();
  return Step::consumed;
}

Step UpdateGroups::get_memory(LaneState& lane, Status& status) {
  Result<GroupMemory> memory = dispatch_.prepare_group(lane.group, lane, queues_.on_shortage(lane));
  if (dispatch_.is_short(memory.status())) {
    return queues_.park_for_memory(lane);
  }
  if (memory.has_value()) {
    lane.prepared = std::move(memory).value();
  } else {
    status = memory.status();
  }
  return Step::consumed;
}

void UpdateGroups::abort_if_over(const LaneState& lane, UpdateDecision& decision) const {
  if (dispatch_.lost()) {
    decision.abort(dispatch_.lost());
  } else if (lane.has_expired) {
    decision.abort(std::make_shared<const Error>(
        Error{.code = ErrorCode::deadline_exceeded,
              .text = "a prepared update was not decided before the deadline",
              .op = "update group",
              .device = endpoint_.name(),
              .stream = lane.id.value,
              .report = report_.report()}));
  }
}

// If the listener throws, the handle is destroyed with the call, which aborts the update.
void UpdateGroups::announce(LaneState& lane, JointUpdate& joint) {
  auto listener = std::exchange(joint.prepared, {});
  notify(endpoint_,
         "the caller that waits for an update",
         listener,
         PreparedUpdate(IntrusivePtr<DeviceEndpoint>(&endpoint_), lane.id, joint.decision));
}

void UpdateGroups::settle(LaneId id) {
  LaneState* const lane = queues_.find(id);
  if (lane != nullptr && lane->parked == ParkReason::decision) {
    queues_.unpark(*lane);
  }
}

}  // namespace hearth
