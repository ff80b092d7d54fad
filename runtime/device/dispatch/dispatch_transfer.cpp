// Bytes in and out: uploads, readbacks, loans.
#include "dispatch.hpp"

#include <utility>

#include "runtime/client/tickets.hpp"
#include "runtime/device/memory/guarded.hpp"

namespace hearth {

// Phases: a failure of the source; memory, or a wait for it during which the record keeps its
// ticket; the next part of the bytes, whose owner stays in flight with it; after the last part, the
// tensor.
Ran Dispatch::upload(const OpView& op, LaneState& lane, OnShortage rule) {
  UploadTicket* const ticket = ticket_in<UploadTicket>(op);
  ErrorRef error = lost_;
  if (!error && ticket->transfer) {
    error = ticket->transfer->error;
    ticket->bytes = ticket->transfer->bytes;  // the ticket keeps them alive until the upload
  }
  const auto fail_upload = [&](const ErrorRef& why) {
    fail(op, lane, why);
    const auto done = take_ticket<UploadTicket>(op);
    return Ran::failed;
  };
  if (error) {
    return fail_upload(error);
  }
  if (!lane.copy) {
    const std::uint64_t releases = handles_.release_count();
    Result<HeldStorage> storage = new_storage_for(op, 0, rule);
    if (!storage.has_value()) {
      if (is_short(storage.status())) {
        uncount_deferred(releases, rule);
        return Ran::short_of_memory;
      }
      return fail_upload(failure_of(storage.error(), op, lane.id));
    }
    const Block& block = storage.value()->block;
    lane.copy.emplace(PartialCopy{
        .data = block.data, .after = {block.ready_after, kOpStream}, .begin = traced_now()});
    lane.copy->storage = std::move(storage).value();
  }
  const Status status =
      upload_part(*lane.copy, ticket->bytes, ticket->transfer ? ticket->transfer : ticket->owner);
  if (!status.has_value()) {
    return fail_upload(error_of(status, op, lane.id));
  }
  if (lane.copy->done_bytes < ticket->bytes.size()) {
    return Ran::in_part;
  }
  const TimelinePoint point = lane.copy->point;
  trace_copy(
      op, lane.id, detail::TraceTrack::uploads, ticket->bytes.size(), lane.copy->begin, point);
  const Operand out = op.output(0);
  HeldStorage storage = std::move(lane.copy->storage);
  end_copy(lane);
  fill(handles_.slot(out.slot), out, lane.id, std::move(storage));
  const auto done = take_ticket<UploadTicket>(op);
  return Ran::done;
}

// Fulfils the reader's promise last: it may be read at once, and its tensor may end then. A
// readback has no outputs to poison: the error is its answer, and it does not count as a poisoned
// op.
Ran Dispatch::readback(const ResolvedOp& op, LaneState& lane, OnShortage rule) {
  ReadTicket* const ticket = ticket_in<ReadTicket>(op.op());
  ErrorRef error = first_poison(op);
  TimelinePoint point;
  if (!error) {
    const Status status = download(op, ticket->target, lane, rule);
    const bool is_in_part = status.has_value() && lane.copy->done_bytes < ticket->target.size();
    if (is_short(status) || is_in_part) {
      return is_in_part ? Ran::in_part : Ran::short_of_memory;
    }
    if (!status.has_value()) {
      error = error_of(status, op.op(), lane.id);
    } else {
      point = lane.copy->point;
      trace_copy(op.op(),
                 lane.id,
                 detail::TraceTrack::readbacks,
                 ticket->target.size(),
                 lane.copy->begin,
                 point);
    }
  }
  const LateFailures late = error ? nullptr : op.slot(0).late;
  if (late != nullptr && ticket->target.empty()) {
    // There are no bytes to wait for, but kernels on which they depend may fail.
    point = {.value = in_flight_.issued_ops(), .stream = kOpStream};
  }
  if (!point.is_done()) {
    auto& end = std::get<ReadEnd>(
        in_flight_.add(point, ReadEnd{nullptr, late, {op.op().record(), lane.id}}));
    end.ticket = take_ticket<ReadTicket>(op.op());
    finish_copy(lane);
    consume_inputs(op);
    return Ran::done;
  }
  if (error) {
    end_copy(lane);
  } else {
    finish_copy(lane);
  }
  consume_inputs(op);
  const Ran ran = error ? Ran::failed : Ran::done;
  if (error) {
    register_failure(error, lane);
  }
  const auto done = take_ticket<ReadTicket>(op.op());
  notify(endpoint_, "the reader of a tensor", done->finish, *done, std::move(error));
  return ran;
}

// Backends copy contiguous bytes. A strided tensor is packed first, in device memory, and waits for
// that memory like an op.
Status Dispatch::download(const ResolvedOp& op,
                          std::span<std::byte> target,
                          LaneState& lane,
                          OnShortage rule) {
  if (!lane.copy) {
    const detail::TimePoint begin = traced_now();
    const Slot& slot = op.slot(0);
    HeldStorage storage;
    std::byte* data = slot.data;
    if (slot.layout->contiguous) {
      HandleTable::share(*slot.storage);
      storage = hold(slot.storage);
    } else {
      HEARTH_TRY(storage, packed(op.op(), op.op().input(0), slot, rule));
      data = storage->block.data;
    }
    lane.copy.emplace(
        PartialCopy{.data = data, .after = storage->written, .target = target, .begin = begin});
    lane.copy->storage = std::move(storage);
  }
  return download_part(*lane.copy, target, nullptr);
}

// ---- parts ----

Status Dispatch::upload_part(PartialCopy& copy,
                             std::span<const std::byte> bytes,
                             const std::shared_ptr<const void>& owner) {
  Status status = guarded("the upload", [&]() -> Status {
    HEARTH_TRY(const CopyPart part,
               copies_->upload(
                   copy.data + copy.done_bytes, bytes.subspan(copy.done_bytes), {&copy.after, 1}));
    record_part(copy, part, bytes.size(), kUploadStream, owner);
    return {};
  });
  if (!status.has_value()) {
    record_begun_copy(*copy.storage, kUploadStream);
  }
  return status;
}

Status Dispatch::download_part(PartialCopy& copy,
                               std::span<std::byte> bytes,
                               const std::shared_ptr<const void>& owner) {
  Status status = guarded("the download", [&]() -> Status {
    HEARTH_TRY(const CopyPart part,
               copies_->download(
                   bytes.subspan(copy.done_bytes), copy.data + copy.done_bytes, {&copy.after, 1}));
    record_part(copy, part, bytes.size(), kDownloadStream, owner);
    return {};
  });
  if (!status.has_value()) {
    record_begun_copy(*copy.storage, kDownloadStream);
  }
  return status;
}

// The entry without a ticket causes a look when the part has ended.
void Dispatch::record_part(PartialCopy& copy,
                           const CopyPart& part,
                           std::size_t size_bytes,
                           std::uint8_t stream,
                           const std::shared_ptr<const void>& owner) {
  copy.room.reset();
  if (part.size_bytes == 0 && size_bytes > 0) {
    copy.room = part.point;
    return;
  }
  copy.done_bytes += part.size_bytes;
  if (part.point.is_done()) {
    return;
  }
  copy.point = part.point;
  record_copy(*copy.storage, part.point, stream == kUploadStream);
  std::unique_ptr<UploadTicket> ticket;
  if (owner != nullptr) {
    ticket = std::make_unique<UploadTicket>(UploadTicket{.bytes = {}, .owner = owner});
  }
  in_flight_.add(part.point, UploadEnd{std::move(ticket)});
}

// From here on the bytes of a readback belong to its end, which keeps its ticket alive.
void Dispatch::finish_copy(LaneState& lane) noexcept {
  if (lane.copy) {
    lane.copy->target = {};
  }
  end_copy(lane);
}

void Dispatch::end_copy(LaneState& lane) noexcept {
  if (!lane.copy) {
    return;
  }
  if (!lane.copy->target.empty()) {
    copies_->forget_target(lane.copy->target);
  }
  lane.copy.reset();
}

// ---- loans ----

Result<HeldStorage> Dispatch::storage_to_lend(const ResolvedOp& op,
                                              LaneState& lane,
                                              OnShortage rule) {
  const std::uint64_t releases = handles_.release_count();
  Result<HeldStorage> storage = lendable(op, lane, rule);
  if (!storage.has_value() && is_short(storage.status())) {
    uncount_deferred(releases, rule);
    return storage;
  }
  statistics_.foreign_uses += op.foreign_uses();
  return storage;
}

// The borrower writes to the bytes, so they must have no other user, as for a result in place. A
// poisoned tensor is never copied; its error becomes the loan's.
Result<HeldStorage> Dispatch::lendable(const ResolvedOp& op, LaneState& lane, OnShortage rule) {
  if (ErrorRef poison = first_poison(op)) {
    return poison;
  }
  const Operand in = op.op().input(0);
  const Slot& from = op.slot(0);
  if (in.use == Use::read_last && is_free_to_write(in.slot, from)) {
    HandleTable::share(*from.storage);
    from.storage->constant.reset();  // the borrower will change the bytes
    return hold(from.storage);
  }
  Result<HeldStorage> copy = packed(op.op(), op.op().output(0), from, rule);
  return copy.has_value() || is_short(copy.status())
             ? std::move(copy)
             : Result<HeldStorage>(error_of(copy.status(), op.op(), lane.id));
}

// A failed copy in parts may have begun: its block has no new user before those parts have ended.
// The entry without a ticket causes a look when they have.
void Dispatch::record_begun_copy(Storage& storage, std::uint8_t stream) {
  const TimelinePoint point = copies_->newest_copy(stream);
  if (!in_flight_.has_ended(point)) {
    record_copy(storage, point, stream == kUploadStream);
    in_flight_.add(point, UploadEnd{});
  }
}

// Entries in flight keep the host's bytes as long as the device may access them.
Status Dispatch::copy_out(Storage& storage, const HostBytes& copy, LaneState& lane) {
  if (!lane.copy) {
    HandleTable::share(storage);
    lane.copy.emplace(PartialCopy{.data = storage.block.data, .after = storage.written});
    lane.copy->storage = hold(&storage);
  }
  HEARTH_TRY_STATUS(download_part(*lane.copy, copy.span(), copy.first));
  if (lane.copy->done_bytes == copy.size) {
    end_copy(lane);
  }
  return {};
}

// The record has left the lane, so it cannot be retried.
Status Dispatch::copy_back(Storage& storage, const HostBytes& copy) {
  HandleTable::share(storage);
  PartialCopy back{.data = storage.block.data, .after = storage.written};
  back.storage = hold(&storage);
  const Deadline deadline = Deadline::in(endpoint_.tables().wait_limit);
  HEARTH_TRY_STATUS(upload_part(back, copy.span(), copy.first));
  while (back.done_bytes < copy.size) {
    if (back.room && !back.room->is_done()) {
      HEARTH_TRY_STATUS(backend_->wait({&*back.room, 1}, deadline));
    }
    HEARTH_TRY_STATUS(upload_part(back, copy.span(), copy.first));
  }
  return {};
}

void Dispatch::trace_loan(const Loan& loan, LaneId lane) {
  const auto size = static_cast<std::size_t>(
      endpoint_.tables().shapes.shape(loan.out.shape).element_count() * size_bytes(loan.out.dtype));
  const OpView op(loan.record, nullptr);
  trace_copy(op, lane, detail::TraceTrack::collectives, size, loan.begin, {});
}

// With an error the bytes are returned here, unless the quarantine holds a use of them.
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
