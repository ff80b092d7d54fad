#include "device_actor.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/tickets.hpp"

namespace hearth {
namespace {

ErrorRef cancelled(const char* text) {
  return std::make_shared<const Error>(Error{.code = ErrorCode::cancelled, .text = text});
}

}  // namespace

DeviceMemory::DeviceMemory(std::unique_ptr<Backend> with, const DeviceActorOptions& options)
    : backend(std::move(with)),
      strategy(options.make_memory ? options.make_memory(backend->pages(), options.budget_bytes)
                                   : make_memory_strategy(
                                         options.pooling, backend->pages(), options.budget_bytes)) {
  if (!strategy) {
    throw_error(Error{.code = ErrorCode::invalid_argument,
                      .text = "DeviceOptions: make_memory gave no strategy",
                      .device = backend->info().name});
  }
  scratch = std::make_unique<DeviceScratch>(*strategy);
  backend->use_scratch(*scratch);
}

DeviceActor::DeviceActor(IntrusivePtr<DeviceEndpoint> endpoint,
                         std::unique_ptr<Backend> backend,
                         const DeviceActorOptions& options)
    : endpoint_(std::move(endpoint)),
      options_(options),
      memory_(std::make_shared<DeviceMemory>(std::move(backend), options)),
      handles_(*memory_->strategy),
      dispatch_(*endpoint_, *memory_->backend, *memory_->scratch, handles_) {}

DeviceActor::~DeviceActor() = default;

// ---- the loop ----

void DeviceActor::thread_main() {
  int timed_sleeps = 0;
  std::uint64_t seen_records = 0;
  while (true) {
    if (endpoint_->doorbell.try_claim()) {
      run(nullptr, nullptr, Deadline::never());
      if (has_stopped_) {
        return;  // the token stays taken for ever
      }
    }
    sleep(timed_sleeps, seen_records);
  }
}

// While a host device was busy a moment ago its actor sleeps in short pieces: then a caller who
// pushes a few ops and reads the result pays for no wake, because the caller runs them itself
// (bench: BM_Pending_RoundTrip). An idle device ends in a sleep without end.
void DeviceActor::sleep(int& timed_sleeps, std::uint64_t& seen_records) {
  const std::uint64_t records = records_seen_.load(std::memory_order_acquire);
  if (records != seen_records) {
    seen_records = records;
    timed_sleeps = 0;
  }
  // Who holds the token looks after the deadlines, and wakes this thread when it leaves some
  // behind.
  const Deadline until = endpoint_->doorbell.is_free()
                             ? next_deadline_.load(std::memory_order_acquire)
                             : Deadline::never();
  const bool timed = endpoint_->is_host() && timed_sleeps < kTimedSleeps;
  if (!endpoint_->doorbell.set_timed(timed)) {
    return;
  }
  if (timed) {
    ++timed_sleeps;
    current_context().parker().park(std::min(until, Deadline::in(std::chrono::milliseconds(1))));
  } else {
    current_context().parker().park(until);
  }
}

void DeviceActor::run_borrowed(UntilFn until, const void* context, Deadline deadline) noexcept {
  ++tokens_lent_;
  run(until, context, deadline);
}

// Phases of a pass: rings and messages; lanes that wait for memory; questions; ops that are held
// for others like them; the end of a shutdown; a turn of the next lane. Where there is none, or the
// borrower has what it waits for, the token goes back.
void DeviceActor::run(UntilFn until, const void* context, Deadline deadline) noexcept {
  endpoint_->note_holder();
  bool has_worked = false;  // before that, no deadline needs a look at the clock
  while (true) {
    schedule_point();
    collect();
    if (memory_waits_ > 0) {
      serve_memory_waits();
    }
    if (!questions_.empty() && (is_idle() || ++question_turns_ > kQuestionTurns)) {
      answer_questions();
      continue;
    }
    const bool is_enough =
        until != nullptr && (until(context) || (has_worked && deadline.has_passed()));
    if (run_held(is_enough)) {
      continue;
    }
    const bool ends_here = is_stopping_ && until == nullptr;
    if (ends_here && (stop_limit_.has_passed() || (ready_.empty() && parked_.empty()))) {
      finish_stop();
      return;
    }
    if (!ready_.empty() && !is_enough) {
      run_next_lane(until, context);
      has_worked = true;
    } else if (try_leave(until != nullptr)) {
      return;  // the actor may be gone
    }
  }
}

void DeviceActor::run_next_lane(UntilFn until, const void* context) {
  LaneState& lane = ready_.take(urgent_waits_ > 0);
  const bool may_join = join_.count_turn(lane);
  while (!may_join && !join_.is_empty()) {
    run_join_group();  // nobody waits for a lane of another kind
  }
  take_turn(lane, until, context);
}

// Once the token is given back the actor may be gone: the caller of run() keeps the endpoint, and
// nothing else is touched then.
bool DeviceActor::try_leave(bool is_borrower) noexcept {
  DeviceEndpoint& endpoint = *endpoint_;
  records_seen_.store(records_, std::memory_order_release);
  const bool has_work = !ready_.empty();
  // A borrower leaves the parked lanes' deadlines, and the end of a shutdown, to the actor's
  // thread.
  const bool leaves_duties = is_borrower && (is_stopping_ || !parked_.empty());
  endpoint.forget_holder();
  if (has_work) {
    endpoint.doorbell.release_with_work();
  } else if (!endpoint.doorbell.try_release()) {
    endpoint.note_holder();  // a ring came first
    return false;
  }
  if (has_work || leaves_duties) {
    endpoint.wake_if_free();
  }
  return true;
}

// A release wakes all, not the first: which of them it is enough for only their allocations know.
// Where nothing runs any more nobody will release anything, so the youngest fails, and the older
// ones may get what it releases.
void DeviceActor::serve_memory_waits() {
  if (released_blocks_ != handles_.release_count()) {
    released_blocks_ = handles_.release_count();
    for (LaneState* lane : std::vector<LaneState*>(parked_)) {
      if (lane->parked == ParkReason::memory) {
        unpark(*lane);
      }
    }
  } else if (is_idle()) {
    const auto youngest = std::find_if(parked_.rbegin(), parked_.rend(), [](const LaneState* lane) {
      return lane->parked == ParkReason::memory;
    });
    expire(**youngest);
  }
}

void DeviceActor::collect() {
  const Doorbell::Rung rung = endpoint_->doorbell.take();
  // Before the lanes: a new stream sends its priority before its first record rings.
  if (rung.inbox) {
    for (DeviceMessage& message : endpoint_->take_inbox()) {
      receive(message);
    }
  }
  for (Lane* lane = rung.lanes; lane != nullptr;) {
    Lane* next = lane->doorbell_next;
    make_ready(state_of(lane->id()));
    lane = next;
  }
  if (!parked_.empty()) {
    expire_parked();
  } else if (!next_deadline_.load(std::memory_order_acquire).is_never()) {
    next_deadline_.store(Deadline::never(), std::memory_order_release);
  }
}

// The earliest deadline that is left is for the actor's thread, which may sleep while a borrower
// runs the loop.
void DeviceActor::expire_parked() {
  Deadline earliest = is_stopping_ ? stop_limit_ : Deadline::never();
  for (std::size_t i = 0; i < parked_.size();) {
    LaneState* lane = parked_[i];
    if (lane->deadline.has_passed() && !renew(*lane)) {
      expire(*lane);  // takes it out of parked_
      continue;
    }
    earliest = std::min(earliest, lane->deadline);
    ++i;
  }
  next_deadline_.store(earliest, std::memory_order_release);
}

// At most kTurnRecords records, and fewer as soon as somebody else has a claim: a ring or message,
// a more urgent lane, a borrower who has what it waits for. Looking costs a load each, a long turn
// would cost the others its whole length.
void DeviceActor::take_turn(LaneState& lane, UntilFn until, const void* context) {
  lane.is_ready = false;
  for (int count = 0; count < kTurnRecords; ++count) {
    const OpRecord* record = lane.lane->front();
    if (record == nullptr) {
      break;
    }
    endpoint_->note_record(lane.id, *record);
    const OpView op(*record, lane.lane->front_blob());
    if (op.kind() == OpKind::matmul && hold_for_join(lane, op)) {
      break;
    }
    if (consume(lane, op) == Step::parked) {
      break;
    }
    ++records_;
    lane.has_expired = false;
    lane.lane->pop();
    after_record();
    if (endpoint_->doorbell.has_news()) {
      break;  // another lane or a message came: a long turn must not keep it waiting
    }
    if (ready_.has_before(lane.priority)) {
      break;
    }
    if (until != nullptr && until(context)) {
      break;
    }
  }
  end_turn(lane);
}

// Phases: drops whose last user has moved on; lanes that watch this one; a producer that waits for
// room; then the lane is queued again, stays with its waker, or is left to the next ring. An
// orphaned lane that is empty ends.
void DeviceActor::end_turn(LaneState& lane) {
  if (!lane.deferred.empty()) {
    settle(lane.deferred, lane.id);
  }
  if (!lane.watchers.empty()) {
    notify_watchers(lane);
  }
  const bool is_empty = lane.lane->front() == nullptr;
  if (!is_empty) {
    lane.lane->look_for_producer();  // it may be long until the next record is popped
  }
  if (lane.parked != ParkReason::none || lane.is_ready) {
    return;  // stays rung; its waker makes it ready again, or the join does
  }
  if (!is_empty) {
    make_ready(lane);
    return;
  }
  switch (lane.lane->finish_turn()) {
    case Lane::Turn::more:
      make_ready(lane);
      return;
    case Lane::Turn::rung_again:
      return;
    case Lane::Turn::empty:
      if (lane.lane->is_orphaned() && lane.deferred.empty()) {
        close_lane(lane);
      }
      return;
  }
}

void DeviceActor::after_record() {
  if (!dispatch_.woken.empty()) {
    wake_readers();
  }
  if (!dispatch_.late_drops.empty()) {
    for (DeferredDrop& late : dispatch_.late_drops) {
      drop_when_done(std::move(late), LaneId{}, outside_drops_);
    }
    dispatch_.late_drops.clear();
  }
  if (dispatch_.lost() && !is_lost_) {
    note_loss();
  }
}

// ---- lanes ----

// Lanes are opened by their producers, without a word to the actor: it meets a lane when it rings,
// or when a drop names it.
LaneState& DeviceActor::state_of(LaneId id) {
  LaneState* const known = lanes_.find(id);
  return known != nullptr ? *known : lanes_.make(*endpoint_->lanes.find(id));
}

// A lane is in one place: the ready queue, the join, or parked_.
void DeviceActor::make_ready(LaneState& lane) {
  if (!lane.is_ready && lane.parked == ParkReason::none) {
    lane.is_ready = true;
    ready_.push(lane);
    join_.expect(lane);
  }
}

// The record stays at the lane's front and is consumed anew when the lane's waker comes.
void DeviceActor::park(LaneState& lane, ParkReason reason, Deadline deadline) {
  memory_waits_ += reason == ParkReason::memory ? 1 : 0;
  urgent_waits_ += waits_urgently(lane) ? 1 : 0;
  lane.parked = reason;
  lane.deadline = deadline;
  parked_.push_back(&lane);
  if (deadline < next_deadline_.load(std::memory_order_acquire)) {
    next_deadline_.store(deadline, std::memory_order_release);
  }
}

void DeviceActor::park_by_default(LaneState& lane, ParkReason reason) {
  lane.limit.emplace(endpoint_->tables().wait_limit, progress_for(lane));
  park(lane, reason, std::min(lane.limit->next_look(), end_of(lane)));
}

std::uint64_t DeviceActor::progress_for(const LaneState& lane) const {
  return records_ + (lane.awaited_device != nullptr ? lane.awaited_device->record_progress() : 0);
}

bool DeviceActor::renew(LaneState& lane) const {
  if (!lane.limit || end_of(lane).has_passed()) {
    return false;
  }
  const Deadline before = lane.limit->deadline();
  if (lane.limit->is_over(progress_for(lane))) {
    return false;
  }
  lane.deadline = std::min(lane.limit->next_look(), end_of(lane));
  if (lane.awaited_device != nullptr && lane.limit->deadline() != before) {
    endpoint_->note_wait_renewed();  // who waits for this lane waits on, too
  }
  return true;
}

void DeviceActor::park_on(Slot& slot, LaneState& lane, Deadline deadline) {
  slot.waiting.push_back(&lane);
  lane.awaited_slot = &slot;
  park(lane, ParkReason::slot, deadline);
}

void DeviceActor::park_on(Slot& slot, LaneState& lane) {
  slot.waiting.push_back(&lane);
  lane.awaited_slot = &slot;
  park_by_default(lane, ParkReason::slot);
}

ErrorRef DeviceActor::late(const OpView& op, const LaneState& lane, const char* text) {
  return dispatch_.failure_of(
      Error{.code = ErrorCode::deadline_exceeded, .text = text, .report = Report(report())},
      op,
      lane.id);
}

void DeviceActor::unpark(LaneState& lane) {
  if (lane.parked == ParkReason::none) {
    return;
  }
  memory_waits_ -= lane.parked == ParkReason::memory ? 1 : 0;
  urgent_waits_ -= waits_urgently(lane) ? 1 : 0;
  lane.parked = ParkReason::none;
  lane.limit.reset();
  lane.awaited_device = nullptr;
  std::erase(parked_, &lane);
  make_ready(lane);
}

void DeviceActor::leave_slot(LaneState& lane) noexcept {
  if (lane.parked == ParkReason::slot) {
    std::erase(lane.awaited_slot->waiting, &lane);
  }
}

// A loan has left its lane and ends here; every other wait is of the record at the front, which is
// consumed once more and then fails.
void DeviceActor::expire(LaneState& lane) {
  if (lane.parked == ParkReason::loan) {
    expire_loan(lane,
                dispatch_.lost() ? dispatch_.lost()
                                 : std::make_shared<const Error>(Error{
                                       .code = ErrorCode::deadline_exceeded,
                                       .text = "lent bytes were not given back before the deadline",
                                       .report = Report(report())}));
  } else {
    leave_slot(lane);
    lane.has_expired = true;
  }
  unpark(lane);
  wake_readers();
}

// Exchanged first: what a woken lane does may make further slots.
void DeviceActor::wake_readers() {
  for (LaneState* woken : std::exchange(dispatch_.woken, {})) {
    unpark(*woken);
  }
}

// A watcher asked once, and asks again if it still waits. Lane 0 stands for the drops that came as
// messages.
void DeviceActor::notify_watchers(LaneState& lane) {
  for (const LaneId id : std::exchange(lane.watchers, {})) {
    if (id.value == 0) {
      settle(outside_drops_, LaneId{});
      continue;
    }
    LaneState* const known = lanes_.find(id);
    if (known == nullptr) {
      continue;
    }
    LaneState& watcher = *known;
    if (!watcher.deferred.empty()) {
      settle(watcher.deferred, watcher.id);
    }
    if (watcher.parked == ParkReason::lanes) {
      unpark(watcher);
    }
    if (watcher.deferred.empty() && watcher.lane->is_orphaned() && !watcher.is_ready &&
        watcher.parked == ParkReason::none && watcher.lane->front() == nullptr) {
      make_ready(watcher);  // its turn will close it
    }
  }
}

// An open update group dies with its stream: the named tensors keep their old values.
void DeviceActor::close_lane(LaneState& lane) {
  const LaneId id = lane.id;
  if (std::exchange(lane.in_group, false)) {
    const std::vector<GroupRecord> group = std::exchange(lane.group, {});
    dispatch_.abandon_group(group, lane, cancelled("the stream ended inside an update group"));
    for (const GroupRecord& entry : std::exchange(lane.group_drops, {})) {
      drop(lane, OpView(entry.record, entry.blob.data()));
    }
    wake_readers();
  }
  notify_watchers(lane);
  if (!lane.deferred.empty()) {
    return;  // the group's drops wait for other lanes, whose progress brings this one back
  }
  lanes_.erase(id);
  endpoint_->lanes.close(id);
}

// ---- shutdown ----

void DeviceActor::finish_stop() noexcept {
  const auto closed = std::make_shared<const Error>(endpoint_->closed_error());
  has_stopped_ = true;
  for (DeviceMessage& message : endpoint_->stop_inbox()) {
    receive(message);  // it may look into the lanes, which are the actor's up to here
  }
  answer_questions();
  const Doorbell::Rung rung = endpoint_->doorbell.stop();
  // Only the lanes in this actor's hands: any other has its producer for a consumer now, which
  // finds the doorbell stopped when it rings. The lanes themselves end with the endpoint.
  for (Lane* lane = rung.lanes; lane != nullptr;) {
    Lane* next = lane->doorbell_next;
    reject_lane(*endpoint_, *lane, closed);
    lane = next;
  }
  lanes_.for_each([&](const LaneState& lane) {
    if (lane.is_ready || lane.parked != ParkReason::none) {
      reject_lane(*endpoint_, *lane.lane, closed);
    }
  });
}

}  // namespace hearth
