#include "device_actor.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/tickets.hpp"

namespace hearth {
namespace {

Fusion fusion_of(const Backend& backend, const DeviceActorOptions& options) noexcept {
  return backend.info().takes_groups ? options.fusion : Fusion::off;
}

}  // namespace

DeviceActor::DeviceActor(IntrusivePtr<DeviceEndpoint> endpoint,
                         std::unique_ptr<Backend> backend,
                         const DeviceActorOptions& options)
    : endpoint_(std::move(endpoint)),
      options_(options),
      memory_(std::make_shared<DeviceMemory>(std::move(backend), options)),
      handles_(*memory_->strategy),
      dispatch_(*endpoint_, *memory_->backend, *memory_->scratch, handles_, in_flight_),
      queues_(*endpoint_, in_flight_),
      report_(*endpoint_, queues_, dispatch_, in_flight_),
      records_(*endpoint_, handles_, dispatch_, queues_, in_flight_, report_, memory_),
      join_(dispatch_, queues_, records_),
      windows_(fusion_of(*memory_->backend, options), handles_, dispatch_, queues_),
      groups_(fusion_of(*memory_->backend, options), handles_, dispatch_, queues_, in_flight_),
      completions_(
          *endpoint_, handles_, dispatch_, queues_, in_flight_, memory_, options_.waiter.get()) {
  dispatch_.use_picks(options_.picks.get());
}

DeviceActor::~DeviceActor() = default;

// ---- the loop ----

void DeviceActor::thread_main() {
  int timed_sleeps = 0;
  std::uint64_t seen_records = 0;
  bool is_idle = false;
  while (true) {
    if (endpoint_->doorbell.try_claim()) {
      if (std::exchange(is_idle, false)) {
        release_failures();
      }
      run(nullptr, nullptr, Deadline::never());
      if (has_stopped_) {
        return;  // the token is never released
      }
    }
    // If a borrower has the token, the failures stay until this thread is woken.
    is_idle = sleep(timed_sleeps, seen_records) || is_idle;
  }
}

void DeviceActor::release_failures() {
  queues_.for_each([](LaneState& lane) {
    for (UnreadFailure& unread : lane.failures) {
      unread.carrier = nullptr;
    }
  });
}

// After recent work on an inline device its actor sleeps in short pieces. A caller that pushes a
// few ops and reads the result then pays for no wake, because it runs the ops itself (bench:
// BM_Pending_RoundTrip). An idle device finally sleeps without a limit.
bool DeviceActor::sleep(int& timed_sleeps, std::uint64_t& seen_records) {
  const std::uint64_t records = records_seen_.load(std::memory_order_acquire);
  if (records != seen_records) {
    seen_records = records;
    timed_sleeps = 0;
  }
  // A token holder watches the deadlines itself, and wakes this thread if it leaves any behind.
  const Deadline until =
      endpoint_->doorbell.is_free() ? queues_.next_deadline() : Deadline::never();
  const bool timed = endpoint_->runs_inline() && timed_sleeps < kTimedSleeps;
  if (!timed && keeps_failures_.exchange(false, std::memory_order_acq_rel)) {
    return true;
  }
  if (!endpoint_->doorbell.set_timed(timed)) {
    return false;
  }
  if (timed) {
    ++timed_sleeps;
    detail::current_context().parker().park(
        std::min(until, Deadline::in(std::chrono::milliseconds(1))));
  } else {
    detail::current_context().parker().park(until);
  }
  return false;
}

void DeviceActor::run_borrowed(UntilFn until, const void* context, Deadline deadline) noexcept {
  const detail::VectorEnvironment environment;
  ++tokens_lent_;
  run(until, context, deadline);
}

// Phases of a pass: (1) rings and messages; (2) lanes that wait for memory; (3) windows of
// lingering lanes, if a question or the shutdown waits; (4) questions; (5) held ops of the row
// join; (6) the end of a shutdown; (7) a turn of the next lane. Without a runnable lane, or once
// the borrower's condition holds, the loop releases the token.
void DeviceActor::run(UntilFn until, const void* context, Deadline deadline) noexcept {
  endpoint_->publish_holder();
  bool has_worked = false;  // before that, no deadline needs a clock read
  while (true) {
    detail::schedule_point();
    collect();
    if (queues_.has_memory_waits()) {
      serve_memory_waits();
    }
    end_windows_for_duties();
    if (!questions_.empty() && (queues_.is_idle() || ++question_turns_ > kQuestionTurns)) {
      answer_questions();
      continue;
    }
    const bool is_enough =
        until != nullptr && (until(context) || (has_worked && deadline.has_passed()));
    if (run_held(is_enough)) {
      continue;
    }
    const bool ends_here = is_stopping_ && until == nullptr;
    if (ends_here && (stop_limit_.has_passed() ||
                      (queues_.is_idle() && queues_.parked().empty() && in_flight_.is_empty()))) {
      finish_stop();
      return;
    }
    if (!queues_.ready().empty() && !is_enough) {
      run_next_lane(until, context);
      has_worked = true;
    } else if (!finds_more() && try_leave(until != nullptr)) {
      return;  // the actor may be destroyed now
    }
  }
}

void DeviceActor::end_windows_for_duties() {
  if (queues_.has_lingering() && (!questions_.empty() || is_stopping_)) {
    queues_.end_lingering(WindowEnd::duty);
  }
}

void DeviceActor::run_next_lane(UntilFn until, const void* context) {
  LaneState& lane = queues_.take_ready();
  const bool may_join = queues_.join().count_turn(lane);
  while (!may_join && !queues_.join().is_empty()) {
    run_join_group();  // no held lane waits for a lane without joinable ops
  }
  take_turn(lane, until, context);
}

// The open batch begins at once if a lane or a caller waits for its work. Otherwise more ops may
// come, so it begins once none has come for a while. A device without work looks for the next ops
// as long as a program takes between two steps.
bool DeviceActor::finds_more() noexcept {
  constexpr std::chrono::nanoseconds kGather = std::chrono::microseconds(10);
  constexpr std::chrono::nanoseconds kBetweenSteps = std::chrono::microseconds(50);
  const std::chrono::nanoseconds limit = endpoint_->tables().busy_wait;
  if (endpoint_->runs_inline() || limit == std::chrono::nanoseconds::zero() || is_stopping_) {
    return false;
  }
  const detail::Clock& clock = detail::current_context().clock();
  const detail::TimePoint begin = clock.now();
  bool has_flushed = false;
  while (!endpoint_->doorbell.has_rung()) {
    const std::chrono::nanoseconds looked = clock.now() - begin;
    if (looked >= (in_flight_.is_empty() ? std::min(kBetweenSteps, limit) : limit)) {
      return false;
    }
    if (queues_.next_deadline().has_passed()) {
      return true;  // of a lane that waits, or of a window
    }
    if (!has_flushed && (looked >= kGather || in_flight_.is_awaited())) {
      dispatch_.flush();
      has_flushed = true;
    }
    if (completions_.retire()) {
      after_record();
      return true;
    }
  }
  return true;
}

// After the token is released the actor may be destroyed. The caller of run() holds the endpoint;
// nothing else is accessed from then on.
bool DeviceActor::try_leave(bool is_borrower) noexcept {
  DeviceEndpoint& endpoint = *endpoint_;
  records_seen_.store(queues_.record_count(), std::memory_order_release);
  const bool has_work = !queues_.ready().empty();
  if (!in_flight_.is_empty()) {
    dispatch_.flush();
    completions_.expect();
  }
  // A borrower leaves the deadlines of parked and lingering lanes, and the end of a shutdown, to
  // the actor's thread.
  const bool leaves_duties =
      is_borrower && (is_stopping_ || !queues_.parked().empty() || queues_.has_lingering());
  endpoint.forget_holder();
  if (has_work) {
    endpoint.doorbell.release_with_work();
  } else if (!endpoint.doorbell.try_release()) {
    endpoint.publish_holder();  // a ring came first
    return false;
  }
  if (has_work || leaves_duties) {
    endpoint.wake_if_free();
  }
  return true;
}

// A release wakes all waiters, not only the first: each learns from its own allocation whether the
// memory suffices. A window may hold the drop that would help, so windows end next.
// If no lane can run and nothing is in flight, no work will release memory. The youngest waiter
// then fails, and older ones may get what it releases. Its turn checks again that this still holds
// (LaneQueues::on_shortage), because other lanes may have advanced.
void DeviceActor::serve_memory_waits() {
  if (released_blocks_ != handles_.release_count()) {
    released_blocks_ = handles_.release_count();
    queues_.unpark_memory_waits();
  } else if (queues_.ready().empty() && queues_.has_lingering()) {
    queues_.end_lingering(WindowEnd::shortage);
  } else if (queues_.is_idle() && in_flight_.is_empty()) {
    queues_.unpark(queues_.youngest_memory_wait());
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
    queues_.make_ready(queues_.meet(lane->id()));
    lane = next;
  }
  if (!in_flight_.is_empty()) {
    completions_.retire();
    after_record();
  }
  if (!queues_.parked().empty() || queues_.has_lingering() ||
      (is_stopping_ && !in_flight_.is_empty())) {
    end_waits();
  } else if (!queues_.next_deadline().is_never()) {
    queues_.set_next_deadline(Deadline::never());
  }
}

// The actor's thread uses the earliest remaining deadline while a borrower runs the loop.
void DeviceActor::end_waits() {
  Deadline earliest = is_stopping_ ? stop_limit_ : Deadline::never();
  const std::vector<LaneState*>& parked = queues_.parked();
  for (std::size_t i = 0; i < parked.size();) {
    LaneState* lane = parked[i];
    if (lane->deadline.has_passed() && !queues_.renew(*lane)) {
      expire(*lane);  // removes it from `parked`
      continue;
    }
    earliest = std::min(earliest, lane->deadline);
    ++i;
  }
  const std::vector<LaneState*>& lingering = queues_.lingering();
  for (std::size_t i = 0; i < lingering.size();) {
    LaneState* lane = lingering[i];
    if (lane->linger_until.has_passed()) {
      queues_.end_window(*lane, WindowEnd::idle);  // removes it from `lingering`
      continue;
    }
    earliest = std::min(earliest, lane->linger_until);
    ++i;
  }
  queues_.set_next_deadline(earliest);
}

[[gnu::always_inline]] inline bool DeviceActor::take_record(LaneState& lane,
                                                            const OpRecord& record) {
  endpoint_->publish_progress(lane.id, record);
  const OpView op(record, lane.lane->peek_blob(lane.window.looked()));
  if (windows_.looks_ahead()) {
    if (lane.window.is_done(record)) {
      groups_.finish_done(lane, record);
      after_record();
      return true;
    }
    if (windows_.admit(lane, op) != WindowRunner::Admission::alone) {
      after_record();  // wakes lanes that waited for a view
      return true;
    }
    if (groups_.fuses() && groups_.run(lane)) {
      after_record();
      return true;
    }
  }
  if (op.kind() == OpKind::matmul && join_.hold(lane, op)) {
    return false;
  }
  if (records_.consume(lane, op) != Step::consumed) {
    after_record();  // a lend that waits for its loan may wake lanes
    return false;
  }
  if (windows_.looks_ahead()) {
    WindowRunner::on_record_done(lane, record);
  }
  queues_.finish_record(lane);
  after_record();
  return true;
}

// A turn has at most kTurnRecords records. It ends early for a ring or a message, for a lane of
// higher priority, or once the borrower's condition holds. Each check costs a load; a long turn
// would delay the others by its whole length.
void DeviceActor::take_turn(LaneState& lane, UntilFn until, const void* context) {
  lane.is_ready = false;
  for (int count = 0; count < kTurnRecords; ++count) {
    const OpRecord* record = lane.lane->peek(lane.window.looked());
    if (record == nullptr || !take_record(lane, *record)) {
      break;
    }
    if (endpoint_->doorbell.has_rung()) {
      break;  // another lane or a message came: a long turn must not delay it
    }
    if (queues_.ready().has_before(lane.priority)) {
      break;
    }
    if (until != nullptr && until(context)) {
      break;
    }
  }
  end_turn(lane);
}

// Phases: drops whose last user has advanced; watchers of this lane; a producer that waits for
// room. Then the lane is queued again, stays with its waker, lingers if it has a window, or waits
// for its next ring. An orphaned empty lane ends.
void DeviceActor::end_turn(LaneState& lane) {
  if (endpoint_->tables().trace().is_on()) [[unlikely]] {
    trace_figures(detail::current_context().clock().now());
  }
  if (!lane.deferred.empty()) {
    records_.drops.settle(lane);
  }
  if (!lane.watchers.empty()) {
    notify_watchers(lane);
  }
  if (lane.lane->front() != nullptr) {
    lane.lane->look_for_producer();  // the next record may be popped much later
  }
  if (lane.parked != ParkReason::none || lane.is_ready) {
    return;  // stays rung; its waker or the join makes it ready again
  }
  if (lane.lane->peek(lane.window.looked()) != nullptr) {
    queues_.make_ready(lane);
    return;
  }
  const Lane::Turn turn = lane.lane->finish_turn(lane.window.looked());
  if (turn == Lane::Turn::more) {
    queues_.make_ready(lane);
  } else if (lane.window.is_open()) {
    queues_.linger(lane);
    if (lane.lane->is_orphaned()) {
      queues_.end_window(lane, WindowEnd::stream_end);
    }
  } else if (turn == Lane::Turn::empty && lane.lane->is_orphaned() && lane.deferred.empty()) {
    close_lane(lane);
  }
}

bool DeviceActor::run_held(bool is_enough) {
  if (queues_.join().is_empty()) {
    return false;
  }
  if (is_enough) {
    join_.release_all();
    return false;
  }
  if (!queues_.ready().empty() && !queues_.join().is_due()) {
    return false;
  }
  run_join_group();
  return true;
}

void DeviceActor::run_join_group() {
  join_.run_group();
  after_record();
}

// Runs after the record, when nothing of it is half done.
void DeviceActor::finish_aftermath() {
  dispatch_.end_aftermath();
  queues_.unpark_all(dispatch_.woken);
  records_.drops.take_late_drops();
  if (dispatch_.take_new_failure()) {
    keeps_failures_.store(true, std::memory_order_release);  // partner: sleep
  }
  if (dispatch_.lost() && !is_lost_) {
    record_loss();
  }
}

// ---- lanes ----

// A loan has left its lane and ends here. Every other wait belongs to the record at the front,
// which is consumed once more and then fails.
void DeviceActor::expire(LaneState& lane) {
  if (lane.parked == ParkReason::loan) {
    records_.loans.expire(lane);
  } else {
    LaneQueues::leave_slot(lane);
    lane.has_expired = true;
  }
  queues_.unpark(lane);
  queues_.unpark_all(dispatch_.woken);
}

// A watcher is notified once and registers again if it still waits. Lane 0 stands for the drops
// that came as messages.
void DeviceActor::notify_watchers(LaneState& lane) {
  lane.watched = LaneState::kUnwatched;
  for (const LaneId id : std::exchange(lane.watchers, {})) {
    if (id.value == 0) {
      records_.drops.settle_outside();
      continue;
    }
    LaneState* const known = queues_.find(id);
    if (known == nullptr) {
      continue;
    }
    LaneState& watcher = *known;
    if (!watcher.deferred.empty()) {
      records_.drops.settle(watcher);
    }
    if (watcher.parked == ParkReason::lanes) {
      queues_.unpark(watcher);
    }
    if (watcher.deferred.empty() && watcher.lane->is_orphaned() && !watcher.is_ready &&
        watcher.parked == ParkReason::none && watcher.lane->front() == nullptr) {
      queues_.make_ready(watcher);  // its turn closes it
    }
  }
}

// An open update group is cancelled with its stream: the named tensors keep their old values.
void DeviceActor::close_lane(LaneState& lane) {
  const LaneId id = lane.id;
  HEARTH_ASSERT(lane.lane->front() == nullptr, "a stream ends with records that did not run");
  if (lane.in_group) {
    records_.groups.abandon_open(lane);
    after_record();
  }
  notify_watchers(lane);
  if (!lane.deferred.empty()) {
    return;  // the group's drops wait for other lanes, whose progress notifies this one
  }
  queues_.erase(id);
  endpoint_->lanes.close(id);
}

// ---- shutdown ----

void DeviceActor::finish_stop() noexcept {
  const auto closed = std::make_shared<const Error>(endpoint_->closed_error());
  has_stopped_ = true;
  completions_.abandon(closed);
  queues_.for_each(
      [this](LaneState& lane) { dispatch_.end_copy(lane); });  // before its ticket ends
  for (DeviceMessage& message : endpoint_->stop_inbox()) {
    receive(message);  // a message may access the lanes, which are the actor's up to here
  }
  answer_questions();
  const Doorbell::Rung rung = endpoint_->doorbell.stop();
  // Rejects only the lanes that the actor holds. The producer of any other lane now consumes it,
  // and finds the doorbell stopped when it rings. The lanes themselves end with the endpoint.
  for (Lane* lane = rung.lanes; lane != nullptr;) {
    Lane* next = lane->doorbell_next;
    reject_lane(*endpoint_, *lane, closed);
    lane = next;
  }
  queues_.for_each([&](const LaneState& lane) {
    if (lane.is_ready || lane.parked != ParkReason::none) {
      reject_lane(*endpoint_, *lane.lane, closed);
    }
  });
}

}  // namespace hearth
