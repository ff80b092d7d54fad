#include "records.hpp"

#include <algorithm>
#include <utility>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/tickets.hpp"
#include "runtime/device/lanes/work_wait.hpp"

namespace hearth {

Step Records::consume(LaneState& lane, const OpView& op) {
  try {
    if (lane.limits.is_set() && cancel_if_expired(lane, op)) {
      return Step::consumed;
    }
    const OpClass op_class = op_info(op.kind()).op_class;
    if (op_class == OpClass::lifetime) {
      if (lane.in_group && op.kind() == OpKind::drop) {
        UpdateGroups::keep(lane, op);  // the group has not read it yet
        return Step::consumed;
      }
      return consume_lifetime(lane, op);
    }
    if (lane.in_group && is_update(op.record())) {
      UpdateGroups::keep(lane, op);
      return Step::consumed;
    }
    return run_op(lane, op);
  } catch (...) {
    // Our own bug, or a shortage of host memory. The actor must continue, so the op carries the
    // error, and so does the answer of a ticket that was not taken. The op has not consumed its
    // inputs yet: that comes last and throws nothing.
    const ErrorRef error = dispatch_.thrown_by(op, lane.id);
    forget_waits(lane);
    if (lane.in_group && op.kind() == OpKind::group_end) {
      groups.abandon(lane, error);
    } else if (op.kind() == OpKind::drop) {
      dispatch_.log_mistake("a drop");  // the tensor leaks: other records may still read it
      return Step::consumed;
    } else if (lane.in_group && is_update(op.record())) {
      lane.group_refusal = error;  // a group without one of its records must not run
      dispatch_.abandon_update(op, lane, error);
      return Step::consumed;
    }
    dispatch_.fail(op, lane, error);
    reject_ticket(endpoint_, op, error);
    return Step::consumed;
  }
}

// The waits of one record do not concern the next one.
void Records::forget_waits(LaneState& lane) noexcept {
  lane.awaited_work.reset();
  lane.lending.reset();
  lane.lending_copy = {};
}

Step Records::run_op(LaneState& lane, const OpView& view) {
  const ResolvedOp op = dispatch_.resolve(view, lane.id);
  if (Slot* const uncreated = op.uncreated()) [[unlikely]] {
    return wait_for_input(lane, view, *uncreated);
  }
  if (op.kind() == OpKind::lend) {
    return loans.lend(lane, op);
  }
  if (in_flight_.is_full() || lane.awaited_work) [[unlikely]] {
    const bool needs_room = !dispatch_.first_poison(op);
    const Waited waited =
        needs_room ? wait_for_work(lane, in_flight_.room(), in_flight_, queues_) : Waited::ended;
    if (waited == Waited::parked) {
      return Step::parked;
    }
    if (waited == Waited::hangs) {
      return fail_hung(lane, view);
    }
    lane.awaited_work.reset();  // an op may have found a poisoned input meanwhile
  }
  return step_after(dispatch_.run(op, lane, queues_.on_shortage(lane)), lane);
}

Step Records::keep_for_retry(LaneState& lane, Ran ran) {
  return ran == Ran::in_part ? resume_later(lane, in_flight_, queues_)
                             : queues_.park_for_memory(lane);
}

Step Records::wait_for_input(LaneState& lane, const OpView& op, Slot& uncreated) {
  if (!lane.has_expired) {
    queues_.park_on(uncreated, lane);
    return Step::parked;
  }
  const ErrorRef error =
      report_.late(op, lane, "an operand from another stream was not ready in time");
  dispatch_.fail(op, lane, error);
  reject_ticket(endpoint_, op, error);  // a reader or borrower may wait for it
  return Step::consumed;
}

Step Records::fail_hung(LaneState& lane, const OpView& op) {
  const ErrorRef error = report_.hung(op, lane);
  dispatch_.fail(op, lane, error);
  reject_ticket(endpoint_, op, error);
  return Step::consumed;
}

// Drops first: unlike other lifetimes they come with every op.
Step Records::consume_lifetime(LaneState& lane, const OpView& op) {
  switch (op.kind()) {
    case OpKind::drop:
      drops.drop(lane, op);
      return Step::consumed;
    case OpKind::upload:
      return upload(lane, op);
    case OpKind::readback:
    case OpKind::lend:
      return run_op(lane, op);
    case OpKind::publish:
      publish(op);
      return Step::consumed;
    case OpKind::adopt:
      return drops.adopt(lane, op);
    case OpKind::group_begin:
      lane.in_group = true;
      lane.group_start = op.record().sequence;
      return Step::consumed;
    case OpKind::group_end:
      return groups.finish(lane, op);
    case OpKind::limit: {
      const auto limit = op.attributes<LimitAttributes>();
      lane.limits.set(limit.deadline, take_stop(op));
      return Step::consumed;
    }
    case OpKind::sync:
    default:
      return sync(lane, op);
  }
}

// If the tensor has ended, the publish came too late: its slot may hold another tensor by now.
void Records::publish(const OpView& op) {
  Slot& slot = handles_.slot(op.input(0).slot);
  slot.is_published = slot.generation == op.input(0).generation;
  // Kernels read kept data without a wait, so only devices without work in flight keep any.
  if (slot.is_published && op.record().has(RecordFlag::frozen) && slot.state == SlotState::live &&
      dispatch_.runs_inline()) {
    handles_.freeze(slot);
  }
}

// An error of the device itself takes precedence over failures of the stream's ops. Those are
// reported once, whether this reader gets them or not.
Step Records::sync(LaneState& lane, const OpView& op) {
  const Waited waited = wait_for_work(lane, in_flight_.issued(), in_flight_, queues_);
  if (waited == Waited::parked) {
    return Step::parked;
  }
  ErrorRef error = waited == Waited::hangs ? report_.hung(op, lane) : dispatch_.lost();
  if (const Status hang = dispatch_.inline_hang(); !hang.has_value()) {
    error = report_.late(op, lane, "the device does not answer: " + hang.error().text);
  }
  if (ticket_in<SyncTicket>(op)->reports_failures) {
    const auto failures = std::exchange(lane.failures, {});
    const auto unread = std::ranges::find_if(
        failures, [](const UnreadFailure& each) { return !each.failure->is_read(); });
    if (!error && unread != failures.end()) {
      // Passes the carrier itself, so that the failure ends with this reader's answer.
      error = unread->carrier ? unread->carrier : unread->failure->error();
    }
  }
  const auto ticket = take_ticket<SyncTicket>(op);
  notify(endpoint_, "the caller that waits for a stream", ticket->finish, std::move(error));
  return Step::consumed;
}

// ---- limits ----

bool Records::cancel_if_expired(LaneState& lane, const OpView& op) {
  const bool is_begin = op.kind() == OpKind::group_begin;
  const bool moves_bytes =
      op.kind() == OpKind::upload || op.kind() == OpKind::readback || op.kind() == OpKind::lend;
  const bool may_be = is_begin || moves_bytes || op_info(op.kind()).op_class != OpClass::lifetime;
  if (lane.in_group || !may_be) {
    return false;
  }
  const std::optional<CancelReason> reason = lane.limits.over(op.record().sequence);
  if (!reason) {
    return false;
  }
  const Error why = error_of(*reason);
  if (is_begin) {
    // The group is still read, so that it has an end; the end leaves everything unchanged.
    lane.group_refusal = dispatch_.with_provenance(why, op, lane.id);
    return false;
  }
  forget_waits(lane);
  const ErrorRef error = dispatch_.cancel(op, lane, why);
  reject_ticket(endpoint_, op, error);
  return true;
}

bool Records::is_expired(LaneState& lane) noexcept {
  const OpRecord* const next = lane.lane->front();
  return lane.limits.is_set() && next != nullptr && lane.limits.over(next->sequence).has_value();
}

void Records::cancel(const CancelRecords& give) {
  if (endpoint_.lanes.find(give.lane) == nullptr) {
    return;  // it has ended
  }
  LaneState& lane = queues_.meet(give.lane);
  lane.limits.cancel_through(give.through);
  switch (lane.parked) {
    case ParkReason::slot:
    case ParkReason::transfer:
    case ParkReason::memory:
    case ParkReason::device:  // an update group and a sync() continue to wait
      LaneQueues::leave_slot(lane);
      queues_.unpark(lane);
      return;
    default:  // a loan, a decision and an adoption have begun
      return;
  }
}

// ---- transfers ----

Step Records::upload(LaneState& lane, const OpView& op) {
  const auto* ticket = ticket_in<UploadTicket>(op);
  if (ticket->transfer && !ticket->transfer->is_ready && !dispatch_.lost()) {
    if (!lane.has_expired) {
      ticket->transfer->waiting_lane = lane.id;
      queues_.park_for_bytes(lane, *ticket->transfer->source);
      return Step::parked;
    }
    ticket->transfer->error =
        report_.late(op, lane, "bytes from another device did not arrive in time");
  }
  if (lane.awaited_work) [[unlikely]] {  // room for the next part
    const Waited waited = wait_for_work(lane, {}, in_flight_, queues_);
    if (waited != Waited::ended) {
      return waited == Waited::parked ? Step::parked : fail_hung(lane, op);
    }
  }
  return step_after(dispatch_.upload(op, lane, queues_.on_shortage(lane)), lane);
}

// If the bytes come before their record, no lane is parked, and upload() finds them.
void Records::accept_transfer(TransferArrived& arrival) {
  Transfer& transfer = *arrival.transfer;
  transfer.bytes = std::move(arrival.bytes);
  transfer.error = std::move(arrival.error);
  transfer.is_ready = true;
  LaneState* const lane = queues_.find(transfer.waiting_lane);
  if (lane != nullptr && lane->parked == ParkReason::transfer) {
    queues_.unpark(*lane);
  }
}

}  // namespace hearth
