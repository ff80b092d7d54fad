// What the actor does with each kind of record: ops, lifetimes, transfers, loans, update groups.
#include "device_actor.hpp"

#include <algorithm>
#include <utility>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/tickets.hpp"

namespace hearth {
namespace {

ErrorRef cancelled(const char* text) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::cancelled, .text = text});
}

/// The first tensor that an update replaces and that no record has made yet. An update that is
/// given up keeps it as it will be; its gradient is of no interest.
Slot* unborn_replaced(const ResolvedOp& update) {
  constexpr int kGradient = 1;
  for (int i = 0; i < update.input_count(); ++i) {
    if (i != kGradient && is_unborn(update.slot(i), update.op().input(i))) {
      return &update.slot(i);
    }
  }
  return nullptr;
}

}  // namespace

DeviceActor::Step DeviceActor::consume(LaneState& lane, const OpView& op) {
  try {
    if (lane.limits.is_set() && is_given_up(lane, op)) {
      return Step::consumed;
    }
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
    // Our own bug: an actor must go on, so the op carries the error. It has not consumed its inputs
    // yet: that comes last and throws nothing.
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

DeviceActor::Step DeviceActor::run_op(LaneState& lane, const OpView& view) {
  const ResolvedOp op = dispatch_.resolve(view, lane.id);
  if (Slot* unborn = op.unborn()) {
    if (!lane.has_expired) {
      park_on(*unborn, lane);
      return Step::parked;
    }
    const ErrorRef error = late(view, lane, "an operand from another stream was not made in time");
    dispatch_.fail(view, lane, error);
    reject_ticket(*endpoint_, view, error);  // a readback or lend has someone who waits
    return Step::consumed;
  }
  if (op.kind() == OpKind::lend) {
    return lend(lane, op);
  }
  return park_if_short(dispatch_.run(op, lane, on_shortage(lane)), lane);
}

DeviceActor::Step DeviceActor::park_if_short(Ran ran, LaneState& lane) {
  if (ran != Ran::short_of_memory) {
    return Step::consumed;
  }
  park_by_default(lane, ParkReason::memory);
  return Step::parked;
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
    case OpKind::limit: {
      const auto limit = op.attributes<LimitAttributes>();
      lane.limits.set(limit.deadline, take_stop(op));
      return Step::consumed;
    }
    case OpKind::sync:
    default: {
      const auto ticket = take_ticket<SyncTicket>(op);
      ErrorRef error = dispatch_.finish(op, lane.id);
      if (ticket->reports_failures) {
        const auto failures = std::exchange(lane.failures, {});
        const auto unread = std::ranges::find(failures, false, &Failure::is_read);
        if (!error && unread != failures.end()) {
          error = (*unread)->error();
        }
      }
      notify(*endpoint_, "who waits for a stream", ticket->finish, std::move(error));
      return Step::consumed;
    }
  }
}

// ---- limits ----

bool DeviceActor::is_given_up(LaneState& lane, const OpView& op) {
  const bool is_begin = op.kind() == OpKind::group_begin;
  const bool moves_bytes =
      op.kind() == OpKind::upload || op.kind() == OpKind::readback || op.kind() == OpKind::lend;
  const bool may_be = is_begin || moves_bytes || op_info(op.kind()).op_class != OpClass::lifetime;
  if (lane.in_group || !may_be) {
    return false;
  }
  std::optional<Error> why = lane.limits.over(op.record().sequence);
  if (!why) {
    return false;
  }
  if (is_begin) {
    // The group is taken in as ever, so that it has an end; there it leaves everything as it was.
    lane.group_refusal = dispatch_.with_provenance(*why, op, lane.id);
    return false;
  }
  const ErrorRef error = dispatch_.give_up(op, lane, *why);
  reject_ticket(*endpoint_, op, error);
  return true;
}

bool DeviceActor::is_over(LaneState& lane) noexcept {
  const OpRecord* const next = lane.lane->front();
  return lane.limits.is_set() && next != nullptr && lane.limits.over(next->sequence).has_value();
}

void DeviceActor::give_up(LaneId id, std::uint64_t through) {
  if (endpoint_->lanes.find(id) == nullptr) {
    return;  // it has ended
  }
  LaneState& lane = state_of(id);
  lane.limits.cancel_through(through);
  switch (lane.parked) {
    case ParkReason::slot:
    case ParkReason::transfer:
    case ParkReason::memory:
      leave_slot(lane);
      unpark(lane);
      return;
    default:  // a loan, a decision and an adoption have begun
      return;
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
      // Once only: a watcher looks at all its drops, and each may come back here.
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
  const bool has_blob = op.record().blob_size_bytes > 0;
  if (!has_blob && dispatch_.guests.empty()) {
    dispatch_.release_slot(slot);
    return;
  }
  DeferredDrop entry{slot, dispatch_.guests.take(slot)};
  if (has_blob) {
    std::ranges::copy(uses_of_drop(op.attributes<LastUsesBlob>()), std::back_inserter(entry.uses));
  }
  drop_when_done(std::move(entry), lane.id, lane.deferred);
}

void DeviceActor::drop_from_outside(SlotId slot, const LastUsesBlob& uses) {
  DeferredDrop entry{slot, dispatch_.guests.take(slot)};
  std::ranges::copy(uses_of_drop(uses), std::back_inserter(entry.uses));
  drop_when_done(std::move(entry), LaneId{}, outside_drops_);
}

void DeviceActor::drop_when_done(DeferredDrop&& entry,
                                 LaneId watcher,
                                 std::vector<DeferredDrop>& waiting) {
  if (are_done(entry.uses, watcher)) {
    dispatch_.release_slot(entry.slot);
  } else {
    waiting.push_back(std::move(entry));
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

// Later records of this lane count on being the only users. Where the others are not done by the
// deadline the lane goes on without that: the tensor has guests then.
DeviceActor::Step DeviceActor::adopt(LaneState& lane, const OpView& op) {
  const Operand operand = op.input(0);
  Slot& slot = handles_.slot(operand.slot);
  const bool is_made = !is_unborn(slot, operand);
  std::vector<DeferredDrop::Use> uses;
  if (op.record().blob_size_bytes > 0) {
    uses = uses_of_drop(op.attributes<LastUsesBlob>());
  }
  if (!is_made || !are_done(uses, lane.id)) {
    const Deadline deadline = Deadline::in(endpoint_->tables().wait_limit);
    if (lane.has_expired) {
      dispatch_.add_guests({operand.slot, std::move(uses)});
    } else if (!is_made) {
      park_on(slot, lane, deadline);
      return Step::parked;
    } else {
      park(lane, ParkReason::lanes, deadline);
      return Step::parked;
    }
  }
  if (is_made) {
    slot.home = lane.id;
    slot.is_published = false;
  }
  return Step::consumed;
}

// ---- transfers ----

DeviceActor::Step DeviceActor::upload(LaneState& lane, const OpView& op) {
  const auto* ticket = static_cast<const UploadTicket*>(op.attributes<TicketAttributes>().ticket);
  if (ticket->transfer && !ticket->transfer->is_ready && !dispatch_.lost()) {
    if (!lane.has_expired) {
      ticket->transfer->waiting_lane = lane.id;
      lane.awaited_device = ticket->transfer->source.get();
      park_by_default(lane, ParkReason::transfer);
      return Step::parked;
    }
    ticket->transfer->error = late(op, lane, "bytes from another device did not come in time");
  }
  return park_if_short(dispatch_.upload(op, lane, on_shortage(lane)), lane);
}

// ---- loans ----

// Phases: the bytes, or a wait for memory; the ticket, and the record done; the region handed on.
// All that may throw comes before the ticket is taken and the input consumed: then the taker is
// told of it.
DeviceActor::Step DeviceActor::lend(LaneState& lane, const ResolvedOp& resolved) {
  constexpr const char* kTaker = "the taker of lent bytes";
  const OpView& op = resolved.op();
  HeldStorage storage;
  ErrorRef error;
  try {
    Result<HeldStorage> lent = dispatch_.storage_to_lend(resolved, lane, on_shortage(lane));
    parked_.reserve(parked_.size() + 1);
    if (dispatch_.is_short(lent.status())) {
      return park_if_short(Ran::short_of_memory, lane);
    }
    if (lent.has_value()) {
      storage = std::move(lent).value();
    } else {
      error = lent.shared_error();
    }
  } catch (...) {
    error = dispatch_.thrown_by(op, lane.id);
  }
  const auto ticket = take_ticket<LendTicket>(op);
  if (error) {
    dispatch_.fail(op, lane, error);
    notify(*endpoint_, kTaker, ticket->ready, std::move(error));
    return Step::consumed;
  }
  const Operand out = op.output(0);
  const Layout& layout = endpoint_->tables().shapes.layout(out.shape);
  const auto size = static_cast<std::size_t>(layout.shape.element_count() * size_bytes(out.dtype));
  dispatch_.consume_lent(resolved);
  lane.loan = Loan{next_loan_++, out, storage.release(), op.record()};
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
  if (const ErrorRef thrown = notify(*endpoint_, kTaker, ticket->ready, std::move(region))) {
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
      lane->loan.out, id, dispatch_.hold(lane->loan.storage), outcome_of_loan(*lane, outcome));
  unpark(*lane);
  wake_readers();
}

LaneState* DeviceActor::find_borrowed(LaneId id, std::uint64_t loan) const noexcept {
  LaneState* const lane = lanes_.find(id);
  return lane != nullptr && lane->parked == ParkReason::loan && lane->loan.number == loan ? lane
                                                                                          : nullptr;
}

void DeviceActor::recall_loan(LaneId id, std::uint64_t loan, const ErrorRef& error) {
  if (LaneState* const lane = find_borrowed(id, loan)) {
    expire_loan(*lane, error);
    unpark(*lane);
    wake_readers();
  }
}

// An error that no op has signed says where the bytes were lent.
Status DeviceActor::outcome_of_loan(const LaneState& lane, const Status& status) const {
  if (status.has_value() || status.error().lane != 0) {
    return status;
  }
  return dispatch_.failure_of(status.error(), OpView(lane.loan.record, nullptr), lane.id);
}

void DeviceActor::expire_loan(LaneState& lane, const ErrorRef& error) {
  HandleTable::share(*lane.loan.storage);
  quarantine_.push_back(lane.loan);
  dispatch_.finish_loan(
      lane.loan.out, lane.id, dispatch_.hold(lane.loan.storage), outcome_of_loan(lane, error));
}

// ---- update groups ----

DeviceActor::Step DeviceActor::finish_group(LaneState& lane, const OpView& op) {
  Slot* unborn = nullptr;
  const bool is_refused = lane.group_refusal != nullptr;
  for (std::size_t i = 0; i < lane.group.size() && unborn == nullptr; ++i) {
    const OpView update(lane.group[i].record, lane.group[i].blob.data());
    const ResolvedOp resolved = dispatch_.resolve(update, lane.id);
    unborn = is_refused ? unborn_replaced(resolved) : resolved.unborn();
  }
  if (unborn != nullptr && !lane.has_expired) {
    park_on(*unborn, lane);
    return Step::parked;
  }
  Status status(std::exchange(lane.group_refusal, nullptr));
  std::unique_ptr<GroupTicket> ticket = take_ticket<GroupTicket>(op);
  if (ticket == nullptr) {
    static_cast<void>(end_group(lane, cancelled("the update group was not committed")));
    return Step::consumed;
  }
  try {
    if (unborn != nullptr && !is_refused) {
      status = late(op, lane, "an operand from another stream was not made in time");
    } else if (!is_refused && prepare_group(lane, *ticket, status) == Step::parked) {
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
  if (!status.has_value() && !ticket->joint.decision && !is_refused) {
    // Of a joint update the trainer that decides knows.
    status = endpoint_->tables().failures().enter_lost_update(status.shared_error());
  }
  status = end_group(lane, std::move(status));
  if (!status.has_value() && !ticket->joint.decision) {
    Dispatch::note_failure(status.shared_error(), lane);
  }
  notify(*endpoint_, "who waits for an update", ticket->finish, status.shared_error());
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

// The first time here it gets what the group needs and announces it; then it is called again when
// the decision may be there.
DeviceActor::Step DeviceActor::prepare_group(LaneState& lane, GroupTicket& ticket, Status& status) {
  const bool is_new = !lane.prepared;
  if (is_new) {
    Result<GroupMemory> memory = dispatch_.prepare_group(lane.group, lane, on_shortage(lane));
    if (dispatch_.is_short(memory.status())) {
      return park_if_short(Ran::short_of_memory, lane);
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
              .report = Report(report())}));
  }
  if (decision->is_open()) {
    park(lane, ParkReason::decision, ticket.joint.deadline);
    if (is_new) {
      // Where this throws, the handle goes down with the call, which says no.
      auto listener = std::exchange(ticket.joint.prepared, {});
      notify(*endpoint_,
             "who waits for an update",
             listener,
             PreparedUpdate(endpoint_, lane.id, decision));
    }
    return Step::parked;
  }
  status = decision->error();
  return Step::consumed;
}

}  // namespace hearth
