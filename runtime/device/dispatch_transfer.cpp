// Bytes in and out: uploads, readbacks, loans.
#include "dispatch.hpp"

#include <utility>

#include "guarded.hpp"
#include "runtime/client/tickets.hpp"

namespace hearth {

// Phases: the ticket, and why there are no bytes; memory, or a wait for it, in which the record
// keeps its ticket; the bytes.
Ran Dispatch::upload(const OpView& op, LaneState& lane, OnShortage rule) {
  std::unique_ptr<UploadTicket> ticket = take_ticket<UploadTicket>(op);
  ErrorRef error = lost_;
  if (!error && ticket->transfer) {
    error = ticket->transfer->error;
    ticket->bytes = ticket->transfer->bytes;  // which the ticket keeps alive up to the upload
  }
  if (error) {
    fail(op, lane, error);
    return Ran::failed;
  }
  const std::uint64_t releases = handles_.release_count();
  Result<HeldStorage> storage = new_storage_for(op, 0, rule);
  if (!storage.has_value()) {
    if (is_short(storage.status())) {
      static_cast<void>(ticket.release());
      note_put_off(releases, rule);
      return Ran::short_of_memory;
    }
    fail(op, lane, failure_of(storage.error(), op, lane.id));
    return Ran::failed;
  }
  TimelinePoint point;
  const detail::TimePoint begin = traced_now();
  const TimelinePoint reusable{storage.value()->block.ready_after, kOpStream};
  const Status status = guarded("the upload", [&]() -> Status {
    HEARTH_TRY(point, backend_->upload(storage.value()->block.data, ticket->bytes, {&reusable, 1}));
    return {};
  });
  if (!status.has_value()) {
    note_begun_copy(*storage.value(), kUploadStream);
    fail(op, lane, error_of(status, op, lane.id));
    return Ran::failed;
  }
  trace_copy(op, lane.id, TraceTrack::uploads, ticket->bytes.size(), begin, point);
  if (!point.is_done()) {
    note_copy(*storage.value(), point, true);
    in_flight_.add(point, UploadEnd{std::move(ticket)});
  }
  const Operand out = op.output(0);
  fill(handles_.slot(out.slot), out, lane.id, std::move(storage).value());
  return Ran::done;
}

// The reader's promise is fulfilled as the last thing: it may be read at once, and its tensor be
// gone then. A read has no outputs to poison: the error is its answer, and it is no poisoned op.
Ran Dispatch::readback(const ResolvedOp& op, LaneState& lane, OnShortage rule) {
  std::unique_ptr<ReadTicket> ticket = take_ticket<ReadTicket>(op.op());
  ErrorRef error = first_poison(op);
  TimelinePoint point;
  const detail::TimePoint begin = traced_now();
  if (!error) {
    const Status status = download(op, ticket->target, rule, point);
    if (is_short(status)) {
      static_cast<void>(ticket.release());  // the record keeps it
      return Ran::short_of_memory;
    }
    if (!status.has_value()) {
      error = error_of(status, op.op(), lane.id);
    } else {
      trace_copy(op.op(), lane.id, TraceTrack::readbacks, ticket->target.size(), begin, point);
    }
  }
  const LateFailures late = error ? nullptr : op.slot(0).late;
  if (late != nullptr && ticket->target.empty()) {
    // No bytes to wait for, and yet what they depend on may have failed.
    point = {.value = in_flight_.issued_ops(), .stream = kOpStream};
  }
  if (!point.is_done()) {
    in_flight_.add(point, ReadEnd{std::move(ticket), late, {op.op().record(), lane.id}});
    consume_inputs(op);
    return Ran::done;
  }
  consume_inputs(op);
  const Ran ran = error ? Ran::failed : Ran::done;
  if (error) {
    note_failure(error, lane);
  }
  notify(endpoint_, "the reader of a tensor", ticket->finish, *ticket, std::move(error));
  return ran;
}

// Backends copy plain runs of bytes: a strided tensor is packed first, in memory of the device, and
// waits for that like an op.
Status Dispatch::download(const ResolvedOp& op,
                          std::span<std::byte> target,
                          OnShortage rule,
                          TimelinePoint& point) {
  const Slot& slot = op.slot(0);
  const auto bring = [&](Storage& storage, const std::byte* data) {
    Status status = guarded("the download", [&]() -> Status {
      HEARTH_TRY(point, backend_->download(target, data, {&storage.written, 1}));
      if (!point.is_done()) {
        note_copy(storage, point, false);
      }
      return {};
    });
    if (!status.has_value()) {
      note_begun_copy(storage, kDownloadStream);
    }
    return status;
  };
  if (slot.layout->contiguous) {
    return bring(*slot.storage, slot.data);
  }
  HEARTH_TRY(const HeldStorage storage, packed(op.op(), op.op().input(0), slot, rule));
  return bring(*storage, storage->block.data);
}

Result<HeldStorage> Dispatch::storage_to_lend(const ResolvedOp& op,
                                              LaneState& lane,
                                              OnShortage rule) {
  const std::uint64_t releases = handles_.release_count();
  Result<HeldStorage> storage = lendable(op, lane, rule);
  if (!storage.has_value() && is_short(storage.status())) {
    note_put_off(releases, rule);
    return storage;
  }
  statistics_.foreign_uses += op.foreign_uses();
  return storage;
}

// The borrower writes into the bytes: they must be nobody else's, as for a result in place. A copy
// is made from a poisoned tensor never, and the error is the loan's.
Result<HeldStorage> Dispatch::lendable(const ResolvedOp& op, LaneState& lane, OnShortage rule) {
  if (ErrorRef poison = first_poison(op)) {
    return poison;
  }
  const Operand in = op.op().input(0);
  const Slot& from = op.slot(0);
  if (in.use == Use::read_last && is_free_to_write(in.slot, from)) {
    HandleTable::share(*from.storage);
    from.storage->constant.reset();  // they will change
    return hold(from.storage);
  }
  Result<HeldStorage> copy = packed(op.op(), op.op().output(0), from, rule);
  return copy.has_value() || is_short(copy.status())
             ? std::move(copy)
             : Result<HeldStorage>(error_of(copy.status(), op.op(), lane.id));
}

// A copy in pieces that failed may have begun: its block is nobody else's before those have ended.
// The ticket without bytes is there so that somebody looks when that is.
void Dispatch::note_begun_copy(Storage& storage, std::uint8_t stream) {
  const TimelinePoint point = backend_->newest_copy(stream);
  if (!in_flight_.has_ended(point)) {
    note_copy(storage, point, stream == kUploadStream);
    in_flight_.add(point, UploadEnd{});
  }
}

// The ticket keeps the host's bytes as long as the device may touch them.
Status Dispatch::copy_out(Storage& storage, const HostBytes& copy) {
  Status status = guarded("the copy of lent bytes", [&]() -> Status {
    auto ticket = std::make_unique<UploadTicket>(UploadTicket{.bytes = {}, .owner = copy.first});
    HEARTH_TRY(const TimelinePoint point,
               backend_->download(copy.span(), storage.block.data, {&storage.written, 1}));
    if (!point.is_done()) {
      note_copy(storage, point, false);
      in_flight_.add(point, UploadEnd{std::move(ticket)});
    }
    return {};
  });
  if (!status.has_value()) {
    note_begun_copy(storage, kDownloadStream);
  }
  return status;
}

Status Dispatch::copy_back(Storage& storage, const HostBytes& copy) {
  Status status = guarded("the return of lent bytes", [&]() -> Status {
    auto ticket =
        std::make_unique<UploadTicket>(UploadTicket{.bytes = copy.span(), .owner = copy.first});
    HEARTH_TRY(const TimelinePoint point,
               backend_->upload(storage.block.data, ticket->bytes, {&storage.written, 1}));
    if (!point.is_done()) {
      note_copy(storage, point, true);
      in_flight_.add(point, UploadEnd{std::move(ticket)});
    }
    return {};
  });
  if (!status.has_value()) {
    note_begun_copy(storage, kUploadStream);
  }
  return status;
}

void Dispatch::trace_loan(const Loan& loan, LaneId lane) {
  const auto size = static_cast<std::size_t>(
      endpoint_.tables().shapes.shape(loan.out.shape).element_count() * size_bytes(loan.out.dtype));
  const OpView op(loan.record, nullptr);
  trace_copy(op, lane, TraceTrack::collectives, size, loan.begin, {});
}

// With an error the bytes go back here, unless the quarantine has a use of them, too.
void Dispatch::finish_loan(const Operand& out,
                           LaneId lane,
                           HeldStorage storage,
                           const Status& status) {
  Slot& slot = handles_.slot(out.slot);
  if (status.has_value()) {
    fill(slot, out, lane, std::move(storage));
    return;
  }
  ++statistics_.poisoned_ops;
  handles_.make_poisoned(slot, out, lane, status.shared_error());
  wake_waiting(slot);
}

}  // namespace hearth
