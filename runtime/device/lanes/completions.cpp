#include "completions.hpp"

#include <utility>
#include <variant>

#include <hearth/runtime/base/assert.hpp>

#include "runtime/device/memory/guarded.hpp"

namespace hearth {

// Phases: progress of the device; memory; entries of ended points; lanes.
bool Completions::retire() {
  if (!in_flight_.poll(*memory_->backend)) {
    return false;
  }
  for (std::size_t stream = 0; stream < InFlight::kStreams; ++stream) {
    handles_.record_retired(stream, in_flight_.ended(stream));
  }
  in_flight_.finish_traced(endpoint_.tables().trace(), *memory_->backend);
  while (std::optional<WorkEnd> ended = in_flight_.take_ended()) {
    std::visit([this](auto& end) { finish(end); }, *ended);
  }
  in_flight_.cells.reclaim_ended(in_flight_.ended(kOpStream));
  queues_.record_work_ended();
  endpoint_.record_work_ended();
  wake();
  return true;
}

void Completions::wake() {
  for (LaneState* lane : std::vector<LaneState*>(queues_.parked())) {
    if (lane->parked == ParkReason::device && in_flight_.have_ended(*lane->awaited_work)) {
      queues_.unpark(*lane);
    }
  }
}

// Slots that carry the failure are poisoned when the next record resolves them.
void Completions::finish(KernelEnd& end) {
  LateFailure& failure = *end.failure;
  const Status status =
      guarded("the error cell", [&] { return memory_->backend->cell_status(failure.cell); });
  failure.is_known = true;
  in_flight_.cells.release(failure.cell, in_flight_.issued_ops());
  if (status.has_value()) {
    return;
  }
  const OpView op(end.origin.record, nullptr);
  const ErrorRef cause = first_error(end.before);  // known: it ended before
  failure.error = cause ? cause : dispatch_.failure_of(status.error(), op, end.origin.lane);
  dispatch_.account_late(failure.error, queues_.find(end.origin.lane));
}

void Completions::finish(UploadEnd& end) noexcept {
  end.ticket.reset();
}

void Completions::finish(ReadEnd& end) {
  HEARTH_ASSERT(are_known(end.failures), "a read ends after the kernels that it depends on");
  ErrorRef error = first_error(end.failures);
  LaneState* const lane = queues_.find(end.origin.lane);
  if (error && lane != nullptr) {
    dispatch_.register_failure(error, *lane);
  }
  notify(endpoint_, "the reader of a tensor", end.ticket->finish, *end.ticket, std::move(error));
}

// If a guard failed, the device has kept the old values: the update did not happen.
void Completions::finish(GroupEnd& end) {
  HEARTH_ASSERT(are_known(end.guards), "an update group ends after the kernels that it looks at");
  ErrorRef error = first_error(end.guards);
  if (error) {
    error = endpoint_.tables().failures().enter_lost_update(error);
    if (LaneState* const lane = queues_.find(end.origin.lane)) {
      dispatch_.register_failure(error, *lane);
    }
  }
  notify(endpoint_, "the caller that waits for an update", end.ticket->finish, std::move(error));
}

// The device may access host bytes as long as its backend lives.
void Completions::abandon(const ErrorRef& error) {
  for (WorkEnd& end : in_flight_.take_all()) {
    if (auto* kernel = std::get_if<KernelEnd>(&end)) {
      kernel->failure->is_known = true;
      kernel->failure->error = error;
    } else if (auto* read = std::get_if<ReadEnd>(&end)) {
      notify(endpoint_, "the reader of a tensor", read->ticket->finish, *read->ticket, error);
      memory_->kept.push_back(std::move(read->ticket));
    } else if (auto* group = std::get_if<GroupEnd>(&end)) {
      notify(endpoint_,
             "the caller that waits for an update",
             group->ticket->finish,
             endpoint_.tables().failures().enter_lost_update(error));
    } else {
      memory_->kept.push_back(std::move(std::get<UploadEnd>(end).ticket));
    }
  }
  expected_.clear();
  if (waiter_ != nullptr) {
    waiter_->forget();  // else the waiter would keep a hanging device and its memory
  }
  wake();
}

void Completions::expect() {
  std::vector<TimelinePoint> points = in_flight_.next_points();
  if (points != expected_) {
    expected_ = points;
    waiter_->expect(memory_, endpoint_.generation(), std::move(points));
  }
}

}  // namespace hearth
