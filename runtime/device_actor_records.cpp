// What the actor does with each kind of record: ops, lifetimes, transfers, loans, update groups.
#include "device_actor.hpp"

#include <algorithm>
#include <utility>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "tickets.hpp"

namespace hearth {
namespace {

ErrorRef cancelled(const char* text) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::cancelled, .text = text});
}

}  // namespace

DeviceActor::Step DeviceActor::consume(LaneState& lane, const OpView& op) {
  try {
    if (op_info(op.kind()).op_class == OpClass::lifetime) {
      if (lane.in_group && op.kind() == OpKind::drop) {
        keep_for_group(lane, op);  // the group has not read it yet
        return Step::consumed;
      }
      return consume_lifetime(lane, op);
    }
    if (lane.in_group && op_info(op.kind()).op_class == OpClass::optimizer) {
      keep_for_group(lane, op);
      return Step::consumed;
    }
    return run_op(lane, op);
  } catch (...) {
    // Our own bug: an actor must go on, so the op carries the blame. It has not consumed its inputs, which comes last and throws nothing.
    dispatch_.fail(op, lane, dispatch_.thrown_by(op, lane.id));
    return Step::consumed;
  }
}

void DeviceActor::keep_for_group(LaneState& lane, const OpView& op) {
  GroupRecord entry{op.record(), {}};
  if (entry.record.blob_size_bytes > 0) {
    entry.blob.assign(op.blob(), op.blob() + entry.record.blob_size_bytes);
  }
  (op.kind() == OpKind::drop ? lane.group_drops : lane.group).push_back(std::move(entry));
}

DeviceActor::Step DeviceActor::run_op(LaneState& lane, const OpView& op) {
  if (Slot* unborn = dispatch_.find_unborn_input(op)) {
    if (!lane.has_expired) {
      park_on(*unborn, lane, Deadline::in(endpoint_->tables().wait_limit));
      return Step::parked;
    }
    const ErrorRef error = late(op, lane, "an operand from another stream was not made in time");
    dispatch_.fail(op, lane, error);
    reject_ticket(*endpoint_, op, error);  // a readback or lend has someone who waits
    return Step::consumed;
  }
  switch (op.kind()) {
    case OpKind::readback:
      dispatch_.readback(op, lane);
      break;
    case OpKind::lend:
      return lend(lane, op);
    default:
      if (!may_wait_for_memory(lane)) {
        dispatch_.run(op, lane);
      } else if (!dispatch_.run_or_wait(op, lane)) {
        park(lane, ParkReason::memory, Deadline::in(endpoint_->tables().wait_limit));
        return Step::parked;
      }
  }
  return Step::consumed;
}

DeviceActor::Step DeviceActor::consume_lifetime(LaneState& lane, const OpView& op) {
  switch (op.kind()) {
    case OpKind::upload:
      return upload(lane, op);
    case OpKind::readback:
    case OpKind::lend:
      return run_op(lane, op);
    case OpKind::drop:
      drop(lane, op);
      return Step::consumed;
    case OpKind::publish: {
      Slot& slot = handles_.slot(op.input(0).slot);
      slot.is_published = slot.generation == op.input(0).generation;
      return Step::consumed;
    }
    case OpKind::adopt:
      return adopt(lane, op);
    case OpKind::group_begin:
      lane.in_group = true;
      lane.group_start = op.record().sequence;
      return Step::consumed;
    case OpKind::group_end:
      return finish_group(lane, op);
    case OpKind::sync:
    default: {
      const auto ticket = take_ticket<SyncTicket>(op);
      tell(*endpoint_, "who waits for a stream", ticket->finish, dispatch_.finish(op, lane.id));
      return Step::consumed;
    }
  }
}

// ---- lifetimes ----

std::vector<DeferredDrop::Use> DeviceActor::uses_of_drop(const LastUsesBlob& blob) const {
  std::vector<DeferredDrop::Use> uses;
  for (std::uint32_t i = 0; i < blob.count; ++i) {
    uses.push_back({LaneId{blob.lane[i]}, blob.sequence[i]});
  }
  if (blob.all_lanes != 0) {
    // More lanes than a tensor remembers used it: all that is queued anywhere now must go first.
    for (const Lane* other : endpoint_->lanes.open_lanes()) {
      if (const std::uint64_t pushed = other->pushed_seen(); !has_done(other->id(), pushed)) {
        uses.push_back({other->id(), pushed});
      }
    }
  }
  return uses;
}

bool DeviceActor::has_done(LaneId id, std::uint64_t sequence) const {
  if (const LaneState* known = lanes_.find(id)) {
    return known->done() >= sequence;
  }
  const Lane* lane = endpoint_->lanes.find(id);
  return lane == nullptr || lane->consumed() >= sequence;  // it has ended, or is not met yet
}

bool DeviceActor::are_done(std::span<const DeferredDrop::Use> uses, LaneId watcher) {
  for (const DeferredDrop::Use& use : uses) {
    if (use.lane != watcher && !has_done(use.lane, use.sequence)) {
      // Once only: whoever is told looks at all its drops, and each may come back here.
      std::vector<LaneId>& watchers = state_of(use.lane).watchers;
      if (std::ranges::find(watchers, watcher) == watchers.end()) {
        watchers.push_back(watcher);
      }
      return false;
    }
  }
  return true;
}

void DeviceActor::drop(LaneState& lane, const OpView& op) {
  const SlotId slot = op.input(0).slot;
  if (op.record().blob_size_bytes == 0) {
    dispatch_.release_slot(slot);
    return;
  }
  DeferredDrop entry{slot, uses_of_drop(op.attributes<LastUsesBlob>())};
  if (are_done(entry.uses, lane.id)) {
    dispatch_.release_slot(slot);
  } else {
    lane.deferred.push_back(std::move(entry));
  }
}

void DeviceActor::drop_from_outside(SlotId slot, const LastUsesBlob& uses) {
  DeferredDrop entry{slot, uses_of_drop(uses)};
  if (are_done(entry.uses, LaneId{})) {
    dispatch_.release_slot(slot);
  } else {
    outside_drops_.push_back(std::move(entry));
  }
}

void DeviceActor::settle(std::vector<DeferredDrop>& drops, LaneId watcher) {
  std::vector<DeferredDrop> left;
  for (DeferredDrop& entry : drops) {
    if (are_done(entry.uses, watcher)) {
      dispatch_.release_slot(entry.slot);
    } else {
      left.push_back(std::move(entry));
    }
  }
  drops = std::move(left);
}

DeviceActor::Step DeviceActor::adopt(LaneState& lane, const OpView& op) {
  const Operand operand = op.input(0);
  Slot& slot = handles_.slot(operand.slot);
  // Without a deadline: later records of this lane count on being the only users. What is waited for has a deadline of its own.
  if (is_unborn(slot, operand)) {
    park_on(slot, lane, Deadline::never());
    return Step::parked;
  }
  if (op.record().blob_size_bytes > 0 &&
      !are_done(uses_of_drop(op.attributes<LastUsesBlob>()), lane.id)) {
    park(lane, ParkReason::lanes, Deadline::never());
    return Step::parked;
  }
  slot.home = lane.id;
  slot.is_published = false;
  return Step::consumed;
}

// ---- transfers ----

DeviceActor::Step DeviceActor::upload(LaneState& lane, const OpView& op) {
  const auto* ticket = static_cast<const UploadTicket*>(op.attributes<TicketAttributes>().ticket);
  if (ticket->transfer && !ticket->transfer->is_ready && !dispatch_.lost()) {
    if (!lane.has_expired) {
      ticket->transfer->waiting_lane = lane.id;
      park(lane, ParkReason::transfer, Deadline::in(endpoint_->tables().wait_limit));
      return Step::parked;
    }
    ticket->transfer->error = late(op, lane, "bytes from another device did not come in time");
  }
  if (!may_wait_for_memory(lane)) {
    dispatch_.upload(op, lane);
  } else if (!dispatch_.upload_or_wait(op, lane)) {
    park(lane, ParkReason::memory, Deadline::in(endpoint_->tables().wait_limit));
    return Step::parked;
  }
  return Step::consumed;
}

void DeviceActor::transfer_arrived(LaneId id) {
  LaneState* const lane = lanes_.find(id);
  if (lane != nullptr && lane->parked == ParkReason::transfer) {
    unpark(*lane);
  }
}

// ---- loans ----

DeviceActor::Step DeviceActor::lend(LaneState& lane, const OpView& op) {
  constexpr const char* kTaker = "the taker of lent bytes";
  const auto ticket = take_ticket<LendTicket>(op);
  const Operand out = op.output(0);
  Result<HeldStorage> storage = dispatch_.prepare_loan(op, lane);
  if (!storage.has_value()) {
    tell(*endpoint_, kTaker, ticket->ready, storage.shared_error());
    return Step::consumed;
  }
  const Layout& layout = endpoint_->tables().shapes.layout(out.shape);
  const auto size = static_cast<std::size_t>(layout.shape.element_count() * size_bytes(out.dtype));
  lane.loan = Loan{next_loan_++, out, storage.value().release(), op.record()};
  // The record is done: it leaves the lane now, and the lane waits before the next one.
  lane.has_expired = false;
  lane.lane->pop();
  ++records_;
  park(lane, ParkReason::loan, ticket->deadline);
  LentRegion region(endpoint_,
                    memory_,
                    lane.id,
                    lane.loan.number,
                    std::span<std::byte>(lane.loan.storage->block.data, size),
                    out.dtype);
  if (const ErrorRef thrown = tell(*endpoint_, kTaker, ticket->ready, std::move(region))) {
    recall_loan(lane.id, lane.loan.number, thrown);  // the taker may have kept the bytes
  }
  return Step::parked;
}

void DeviceActor::end_loan(LaneId id, std::uint64_t loan, const Status& status) {
  for (std::size_t i = 0; i < quarantine_.size(); ++i) {
    if (quarantine_[i].number == loan) {  // the deadline was first
      handles_.unuse(quarantine_[i].storage);
      quarantine_.erase(quarantine_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  LaneState* const lane = find_borrowed(id, loan);
  if (lane == nullptr) {
    return;  // it was made by a generation that is gone
  }
  const Status& outcome = lane->loan.error ? Status(lane->loan.error) : status;
  dispatch_.finish_loan(
      lane->loan.out, id, dispatch_.hold(lane->loan.storage), blame_loan(*lane, outcome));
  unpark(*lane);
  wake_readers();
}

LaneState* DeviceActor::find_borrowed(LaneId id, std::uint64_t loan) const noexcept {
  LaneState* const lane = lanes_.find(id);
  return lane != nullptr && lane->parked == ParkReason::loan && lane->loan.number == loan ? lane
                                                                                          : nullptr;
}

void DeviceActor::spoil_loan(LaneId id, std::uint64_t loan, ErrorRef error) {
  LaneState* const lane = find_borrowed(id, loan);
  if (lane != nullptr && !lane->loan.error) {
    lane->loan.error = std::move(error);
  }
}

void DeviceActor::recall_loan(LaneId id, std::uint64_t loan, const ErrorRef& error) {
  if (LaneState* const lane = find_borrowed(id, loan)) {
    expire_loan(*lane, error);
    unpark(*lane);
    wake_readers();
  }
}

// An error that no op has signed says where the bytes were lent.
Status DeviceActor::blame_loan(const LaneState& lane, const Status& status) const {
  if (status.has_value() || status.error().lane != 0) {
    return status;
  }
  return dispatch_.with_provenance(status.error(), OpView(lane.loan.record, nullptr), lane.id);
}

void DeviceActor::expire_loan(LaneState& lane, const ErrorRef& error) {
  HandleTable::share(*lane.loan.storage);
  quarantine_.push_back(lane.loan);
  dispatch_.finish_loan(
      lane.loan.out, lane.id, dispatch_.hold(lane.loan.storage), blame_loan(lane, error));
}

// ---- update groups ----

DeviceActor::Step DeviceActor::finish_group(LaneState& lane, const OpView& op) {
  Slot* unborn = nullptr;
  for (std::size_t i = 0; i < lane.group.size() && unborn == nullptr; ++i) {
    unborn = dispatch_.find_unborn_input(OpView(lane.group[i].record, lane.group[i].blob.data()));
  }
  if (unborn != nullptr && !lane.has_expired) {
    park_on(*unborn, lane, Deadline::in(endpoint_->tables().wait_limit));
    return Step::parked;
  }
  std::unique_ptr<GroupTicket> ticket = take_ticket<GroupTicket>(op);
  if (ticket == nullptr) {
    static_cast<void>(end_group(lane, cancelled("the update group was not committed")));
    return Step::consumed;
  }
  Status status;
  try {
    if (unborn != nullptr) {
      status = late(op, lane, "an operand from another stream was not made in time");
    } else if (prepare_group(lane, *ticket, status) == Step::parked) {
      static_cast<void>(ticket.release());  // the record keeps it
      return Step::parked;
    }
  } catch (...) {
    status = dispatch_.thrown_by(op, lane.id);
    lane.prepared.reset();
  }
  if (!status.has_value() && !lane.prepared) {
    refuse(*endpoint_, *ticket, status.shared_error());
  }
  status = end_group(lane, std::move(status));
  tell(*endpoint_, "who waits for an update", ticket->finish, status.shared_error());
  return Step::consumed;
}

Status DeviceActor::end_group(LaneState& lane, Status status) {
  lane.in_group = false;
  const std::vector<GroupRecord> group = std::exchange(lane.group, {});
  std::optional<GroupMemory> memory = std::exchange(lane.prepared, {});
  if (status.has_value()) {
    status = dispatch_.run_group(group, *memory, lane);
  } else {
    memory.reset();
    dispatch_.abandon_group(group, lane, status.shared_error());
  }
  for (const GroupRecord& entry : std::exchange(lane.group_drops, {})) {
    drop(lane, OpView(entry.record, entry.blob.data()));
  }
  return status;
}

// The first time here it gets what the group needs and announces it; then it is called again when the decision may be there.
DeviceActor::Step DeviceActor::prepare_group(LaneState& lane, GroupTicket& ticket, Status& status) {
  const bool is_new = !lane.prepared;
  if (is_new) {
    bool is_short = false;
    Result<GroupMemory> memory =
        dispatch_.prepare_group(lane.group, lane, may_wait_for_memory(lane) ? &is_short : nullptr);
    if (is_short) {
      park(lane, ParkReason::memory, Deadline::in(endpoint_->tables().wait_limit));
      return Step::parked;
    }
    if (!memory.has_value()) {
      status = memory.status();
      return Step::consumed;
    }
    lane.prepared = std::move(memory).value();
  }
  const std::shared_ptr<UpdateDecision>& decision = ticket.joint.decision;
  if (!decision) {
    return Step::consumed;
  }
  if (!is_new && dispatch_.lost()) {
    decision->abort(dispatch_.lost());
  } else if (!is_new && lane.has_expired) {
    decision->abort(std::make_shared<const Error>(
        Error{.code = ErrorCode::deadline_exceeded,
              .text = "a prepared update was not decided before the deadline",
              .op = "update group",
              .device = endpoint_->name(),
              .lane = lane.id.value,
              .report = report()}));
  }
  if (decision->is_open()) {
    park(lane, ParkReason::decision, ticket.joint.deadline);
    if (is_new) {
      // Where this throws, the handle goes down with the call, which says no.
      auto hear = std::exchange(ticket.joint.prepared, {});
      tell(*endpoint_,
           "who waits for an update",
           hear,
           PreparedUpdate(endpoint_, lane.id, decision));
    }
    return Step::parked;
  }
  status = decision->error();
  return Step::consumed;
}

void DeviceActor::settle_update(LaneId id) {
  LaneState* const lane = lanes_.find(id);
  if (lane != nullptr && lane->parked == ParkReason::decision) {
    unpark(*lane);
  }
}

}  // namespace hearth
