// What the actor does with each kind of record: ops, lifetimes, transfers, loans, update groups.
#include "device_actor.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

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
    // Our own bug, or a memory strategy's: an actor must go on, so the op carries the blame.
    dispatch_.fail(op,
                   lane,
                   dispatch_.with_provenance(
                       Error{.code = ErrorCode::internal, .text = what_was_thrown()}, op, lane.id));
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
      park_on(*unborn, lane, Deadline::in(kDefaultWait));
      return Step::parked;
    }
    const ErrorRef error = late(op, lane, "an operand from another stream was not made in time");
    dispatch_.fail(op, lane, error);
    reject_record(op, error);  // a readback or lend has someone who waits
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
        park(lane, ParkReason::memory, Deadline::in(kDefaultWait));
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
      const std::unique_ptr<SyncTicket> ticket(
          static_cast<SyncTicket*>(op.attributes<TicketAttributes>().ticket));
      ticket->finish(dispatch_.lost());
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
    for (std::uint32_t id = 1; id <= endpoint_->lanes.last_id(); ++id) {
      const Lane* other = endpoint_->lanes.find(LaneId{id});
      if (other != nullptr && !has_done(LaneId{id}, other->pushed_seen())) {
        uses.push_back({LaneId{id}, other->pushed_seen()});
      }
    }
  }
  return uses;
}

bool DeviceActor::has_done(LaneId id, std::uint64_t sequence) const {
  const Lane* lane = endpoint_->lanes.find(id);
  if (lane == nullptr) {
    return true;  // it has ended
  }
  const bool is_known = id.value < lanes_.size() && lanes_[id.value];
  return (is_known ? lanes_[id.value]->done() : lane->consumed()) >= sequence;
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
  if (ticket->transfer && !ticket->transfer->is_ready) {
    if (!lane.has_expired) {
      ticket->transfer->waiting_lane = lane.id;
      park(lane, ParkReason::transfer, Deadline::in(kDefaultWait));
      return Step::parked;
    }
    ticket->transfer->error = late(op, lane, "bytes from another device did not come in time");
  }
  if (!may_wait_for_memory(lane)) {
    dispatch_.upload(op, lane);
  } else if (!dispatch_.upload_or_wait(op, lane)) {
    park(lane, ParkReason::memory, Deadline::in(kDefaultWait));
    return Step::parked;
  }
  return Step::consumed;
}

void DeviceActor::transfer_arrived(LaneId id) {
  if (id.value != 0 && id.value < lanes_.size() && lanes_[id.value] &&
      lanes_[id.value]->parked == ParkReason::transfer) {
    unpark(*lanes_[id.value]);
  }
}

// ---- loans ----

DeviceActor::Step DeviceActor::lend(LaneState& lane, const OpView& op) {
  const std::unique_ptr<LendTicket> ticket(
      static_cast<LendTicket*>(op.attributes<TicketAttributes>().ticket));
  const Operand out = op.output(0);
  const Result<Storage*> storage = dispatch_.prepare_loan(op, lane);
  if (!storage.has_value()) {
    ticket->ready(storage.shared_error());
    return Step::consumed;
  }
  const Layout& layout = endpoint_->tables().shapes.layout(out.shape);
  const auto size = static_cast<std::size_t>(layout.shape.element_count() * size_bytes(out.dtype));
  lane.loan = Loan{next_loan_++, out, storage.value(), op.record()};
  // The record is done: it leaves the lane now, and the lane waits before the next one.
  lane.has_expired = false;
  lane.lane->pop();
  ++records_;
  park(lane, ParkReason::loan, ticket->deadline);
  try {
    ticket->ready(LentRegion(endpoint_,
                             memory_,
                             lane.id,
                             lane.loan.number,
                             std::span<std::byte>(storage.value()->block.data, size),
                             out.dtype));
  } catch (...) {
    // The region went down with the call: what it reports of its end comes too late.
    end_loan(lane.id,
             lane.loan.number,
             Error{.code = ErrorCode::worker_failed,
                   .text = fmt::format("the taker of lent bytes threw: {}", what_was_thrown())});
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
  if (id.value >= lanes_.size() || !lanes_[id.value] ||
      lanes_[id.value]->parked != ParkReason::loan || lanes_[id.value]->loan.number != loan) {
    return;  // it was made by a generation that is gone
  }
  LaneState& lane = *lanes_[id.value];
  const Status& outcome = lane.loan.error ? Status(lane.loan.error) : status;
  dispatch_.finish_loan(lane.loan.out, lane.id, lane.loan.storage, blame_loan(lane, outcome));
  unpark(lane);
  wake_readers();
}

void DeviceActor::spoil_loan(LaneId id, std::uint64_t loan, ErrorRef error) {
  if (id.value < lanes_.size() && lanes_[id.value] &&
      lanes_[id.value]->parked == ParkReason::loan && lanes_[id.value]->loan.number == loan &&
      !lanes_[id.value]->loan.error) {
    lanes_[id.value]->loan.error = std::move(error);
  }
}

void DeviceActor::recall_loan(LaneId id, std::uint64_t loan, const ErrorRef& error) {
  if (id.value < lanes_.size() && lanes_[id.value] &&
      lanes_[id.value]->parked == ParkReason::loan && lanes_[id.value]->loan.number == loan) {
    expire_loan(*lanes_[id.value], error);
    unpark(*lanes_[id.value]);
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
  dispatch_.finish_loan(lane.loan.out, lane.id, lane.loan.storage, blame_loan(lane, error));
}

// ---- update groups ----

DeviceActor::Step DeviceActor::finish_group(LaneState& lane, const OpView& op) {
  Slot* unborn = nullptr;
  for (std::size_t i = 0; i < lane.group.size() && unborn == nullptr; ++i) {
    unborn = dispatch_.find_unborn_input(OpView(lane.group[i].record, lane.group[i].blob.data()));
  }
  if (unborn != nullptr && !lane.has_expired) {
    park_on(*unborn, lane, Deadline::in(kDefaultWait));
    return Step::parked;
  }
  auto* const asked = static_cast<GroupTicket*>(op.attributes<TicketAttributes>().ticket);
  Status status;
  if (asked == nullptr) {  // the client gave the group up
    status = cancelled("the update group was not committed");
  } else if (unborn != nullptr) {
    status = late(op, lane, "an operand from another stream was not made in time");
  } else if (prepare_group(lane, *asked, status) == Step::parked) {
    return Step::parked;
  }
  const std::unique_ptr<GroupTicket> ticket(asked);
  lane.in_group = false;
  const std::vector<GroupRecord> group = std::exchange(lane.group, {});
  const std::optional<GroupMemory> memory = std::exchange(lane.prepared, {});
  if (status.has_value()) {
    status = dispatch_.run_group(group, *memory, lane);
  } else {
    if (memory) {
      dispatch_.release_group(*memory);
    } else if (ticket != nullptr) {
      refuse(*ticket, status.shared_error());
    }
    dispatch_.abandon_group(group, lane, status.shared_error());
  }
  for (const GroupRecord& entry : std::exchange(lane.group_drops, {})) {
    drop(lane, OpView(entry.record, entry.blob.data()));
  }
  if (ticket != nullptr) {
    ticket->finish(status.shared_error());
  }
  return Step::consumed;
}

// The first time here it gets what the group needs and announces it; then it is called again when the decision may be there.
DeviceActor::Step DeviceActor::prepare_group(LaneState& lane, GroupTicket& ticket, Status& status) {
  const bool is_new = !lane.prepared;
  if (is_new) {
    bool is_short = false;
    Result<GroupMemory> memory =
        dispatch_.prepare_group(lane.group, lane, may_wait_for_memory(lane) ? &is_short : nullptr);
    if (is_short) {
      park(lane, ParkReason::memory, Deadline::in(kDefaultWait));
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
      announce(lane, ticket);
    }
    return Step::parked;
  }
  status = decision->error();
  return Step::consumed;
}

void DeviceActor::announce(const LaneState& lane, GroupTicket& ticket) {
  try {
    auto hear = std::exchange(ticket.joint.prepared, {});
    hear(PreparedUpdate(endpoint_, lane.id, ticket.joint.decision));
  } catch (...) {
    // The handle went down with the call, which has said no.
    endpoint_->tables().log.error(fmt::format(
        "device {}: who waits for an update threw: {}", endpoint_->name(), what_was_thrown()));
  }
}

void DeviceActor::settle_update(LaneId id) {
  if (id.value < lanes_.size() && lanes_[id.value] &&
      lanes_[id.value]->parked == ParkReason::decision) {
    unpark(*lanes_[id.value]);
  }
}

}  // namespace hearth
