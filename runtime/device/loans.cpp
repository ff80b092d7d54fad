#include "loans.hpp"

#include <utility>

#include <fmt/format.h>

#include "runtime/client/tickets.hpp"
#include "runtime/device/lanes/work_wait.hpp"

namespace hearth {
namespace {

constexpr const char* kTaker = "the receiver of lent bytes";

}  // namespace

// Phases: the bytes, or a wait for memory; a wait for the device, which may still write them; the
// ticket and the end of the record; the region for the borrower. A lane that waited comes here
// again. Everything that may throw precedes the ticket and the end of the input: then the borrower
// gets the error.
Step Loans::lend(LaneState& lane, const ResolvedOp& resolved) {
  const OpView& op = resolved.op();
  HeldStorage storage = std::move(lane.lending);
  ErrorRef error;
  if (storage == nullptr && !find_bytes(resolved, lane, storage, error)) {
    return queues_.park_for_memory(lane);
  }
  const bool has_begun_copy = lane.lending_copy && !lane.awaited_work;
  if (!error && !has_begun_copy && !await_bytes(resolved, lane, storage, error)) {
    return Step::parked;
  }
  Step step = Step::parked;
  if (!error && dispatch_.lends_copies() && !await_copy(resolved, lane, storage, error, step)) {
    return step;
  }
  if (error) {
    lane.lending_copy = {};
    dispatch_.fail(op, lane, error);
    const auto ticket = take_ticket<LendTicket>(op);
    notify(endpoint_, kTaker, ticket->ready, std::move(error));
    return Step::consumed;
  }
  const auto ticket = take_ticket<LendTicket>(op);
  dispatch_.consume_lent(resolved);
  lane.loan = Loan{.number = next_number_++,
                   .out = op.output(0),
                   .storage = storage.release(),
                   .record = op.record(),
                   .copy = std::exchange(lane.lending_copy, {}),
                   .begin = dispatch_.traced_now()};
  // The record is done: it leaves the lane now, and the lane waits before the next one.
  queues_.finish_record(lane);
  queues_.park(lane, ParkReason::loan, ticket->deadline);
  hand_over(lane, *ticket);
  return Step::parked;
}

bool Loans::find_bytes(const ResolvedOp& op,
                       LaneState& lane,
                       HeldStorage& storage,
                       ErrorRef& error) {
  try {
    Result<HeldStorage> lent = dispatch_.storage_to_lend(op, lane, queues_.on_shortage(lane));
    queues_.reserve_park();
    if (dispatch_.is_short(lent.status())) {
      return false;
    }
    if (lent.has_value()) {
      storage = std::move(lent).value();
    } else {
      error = lent.shared_error();
    }
  } catch (...) {
    error = dispatch_.thrown_by(op.op(), lane.id);
  }
  return true;
}

bool Loans::await_bytes(const ResolvedOp& op,
                        LaneState& lane,
                        HeldStorage& storage,
                        ErrorRef& error) {
  switch (wait_for_work(lane, storage->last_use, in_flight_, queues_)) {
    case Waited::parked:
      lane.lending = std::move(storage);
      return false;
    case Waited::hangs:
      error = report_.hung(op.op(), lane);
      return true;
    case Waited::ended:
      error = dispatch_.first_poison(op);  // known by now
      return true;
  }
  return true;
}

// A lane that waited comes here again and finds the copy begun.
bool Loans::await_copy(
    const ResolvedOp& op, LaneState& lane, HeldStorage& storage, ErrorRef& error, Step& step) {
  try {
    const bool is_new = !lane.lending_copy;
    if (is_new) {
      const Operand out = op.op().output(0);
      const detail::Layout& layout = endpoint_.tables().shapes.layout(out.shape);
      lane.lending_copy = dispatch_.host_bytes(
          static_cast<std::size_t>(layout.shape.element_count() * size_bytes(out.dtype)));
    }
    if (is_new || lane.copy) {
      if (const Status status = dispatch_.copy_out(*storage, lane.lending_copy, lane);
          !status.has_value()) {
        error = dispatch_.failure_of(status.error(), op.op(), lane.id);
        return true;
      }
    }
  } catch (...) {
    error = dispatch_.thrown_by(op.op(), lane.id);
    return true;
  }
  if (!lane.copy) {
    return await_bytes(op, lane, storage, error);
  }
  lane.lending = std::move(storage);
  step = resume_later(lane, in_flight_, queues_);
  return false;
}

// Last, with the lane parked: if the borrower's callback throws, the loan is recalled like any
// other.
void Loans::hand_over(LaneState& lane, LendTicket& ticket) {
  const Operand out = lane.loan.out;
  const detail::Layout& layout = endpoint_.tables().shapes.layout(out.shape);
  const auto size = static_cast<std::size_t>(layout.shape.element_count() * size_bytes(out.dtype));
  const HostBytes& copy = lane.loan.copy;
  LentRegion region(IntrusivePtr<DeviceEndpoint>(&endpoint_),
                    copy ? std::shared_ptr<const void>(copy.first) : memory_,
                    lane.id,
                    lane.loan.number,
                    copy ? copy.span() : std::span<std::byte>(lane.loan.storage->block.data, size),
                    out.dtype);
  if (const ErrorRef thrown = notify(endpoint_, kTaker, ticket.ready, std::move(region))) {
    recall({lane.id, lane.loan.number, thrown});  // the taker may have kept the bytes
  }
}

// The work belongs to the borrower: its exceptions must not end the loop.
void Loans::run(RunOnLoan& run) {
  const detail::TraceSpan span(&endpoint_.tables().trace(),
                               {.name = "combine",
                                .device = endpoint_.traced_name(),
                                .lane = run.lane,
                                .track = detail::TraceTrack::collectives});
  try {
    run.work();
  } catch (...) {
    LaneState* const lane = find_borrowed(run.lane, run.loan);
    if (lane != nullptr && !lane->loan.error) {
      lane->loan.error = std::make_shared<const Error>(
          Error{.code = ErrorCode::worker_failed,
                .text = fmt::format("work on lent bytes threw: {}", current_exception_text())});
    }
  }
}

void Loans::end(const EndLoan& end) {
  for (std::size_t i = 0; i < quarantine_.size(); ++i) {
    if (quarantine_[i].number == end.loan) {  // the deadline was first
      handles_.unuse(quarantine_[i].storage);
      quarantine_.erase(quarantine_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  LaneState* const lane = find_borrowed(end.lane, end.loan);
  if (lane == nullptr) {
    return;  // it belongs to an earlier generation
  }
  dispatch_.trace_loan(lane->loan, lane->id);
  Status outcome = lane->loan.error ? Status(lane->loan.error) : end.status;
  const HostBytes copy = std::exchange(lane->loan.copy, {});
  if (outcome.has_value() && copy) {
    outcome = dispatch_.copy_back(*lane->loan.storage, copy);
  }
  dispatch_.finish_loan(
      lane->loan.out, lane->id, dispatch_.hold(lane->loan.storage), outcome_of(*lane, outcome));
  unpark(*lane);
}

LaneState* Loans::find_borrowed(LaneId id, std::uint64_t loan) const noexcept {
  LaneState* const lane = queues_.find(id);
  return lane != nullptr && lane->parked == ParkReason::loan && lane->loan.number == loan ? lane
                                                                                          : nullptr;
}

void Loans::recall(const RecallLoan& recall) {
  if (LaneState* const lane = find_borrowed(recall.lane, recall.loan)) {
    expire(*lane, recall.error);
    unpark(*lane);
  }
}

// The end of a loan creates its tensor, for which other lanes may wait.
void Loans::unpark(LaneState& lane) {
  queues_.unpark(lane);
  queues_.unpark_all(dispatch_.woken);
}

// An error without an op gets the place of the lend.
Status Loans::outcome_of(const LaneState& lane, const Status& status) const {
  if (status.has_value() || status.error().stream != 0) {
    return status;
  }
  return dispatch_.failure_of(status.error(), OpView(lane.loan.record, nullptr), lane.id);
}

void Loans::expire(LaneState& lane) {
  expire(lane,
         dispatch_.lost() ? dispatch_.lost()
                          : std::make_shared<const Error>(
                                Error{.code = ErrorCode::deadline_exceeded,
                                      .text = "lent bytes were not given back before the deadline",
                                      .report = report_.report()}));
}

void Loans::expire(LaneState& lane, const ErrorRef& error) {
  dispatch_.trace_loan(lane.loan, lane.id);
  HandleTable::share(*lane.loan.storage);
  lane.loan.copy = {};  // the region keeps it as long as the borrower may touch it
  quarantine_.push_back(lane.loan);
  dispatch_.finish_loan(
      lane.loan.out, lane.id, dispatch_.hold(lane.loan.storage), outcome_of(lane, error));
}

}  // namespace hearth
