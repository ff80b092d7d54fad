#include "device_actor.hpp"

#include <algorithm>
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

// Whether an urgent lane waits for lanes that may be less urgent.
bool waits_urgently(const LaneState& lane) {
  return lane.priority != Priority::background &&
         (lane.parked == ParkReason::slot || lane.parked == ParkReason::lanes);
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
}

DeviceActor::DeviceActor(IntrusivePtr<DeviceEndpoint> endpoint,
                         std::unique_ptr<Backend> backend,
                         const DeviceActorOptions& options)
    : endpoint_(std::move(endpoint)),
      options_(options),
      memory_(std::make_shared<DeviceMemory>(std::move(backend), options)),
      handles_(*memory_->strategy),
      dispatch_(*endpoint_, *memory_->backend, handles_) {}

DeviceActor::~DeviceActor() = default;

// ---- the loop ----

void DeviceActor::thread_main() {
  int timed_sleeps = 0;
  std::uint64_t seen_records = 0;
  while (true) {
    if (endpoint_->doorbell.try_claim()) {
      static_cast<void>(run(nullptr, nullptr, Deadline::never()));
      if (has_stopped_) {
        return;  // the token stays taken for ever
      }
    }
    sleep(timed_sleeps, seen_records);
  }
}

// While a host device was busy a moment ago its actor sleeps in short pieces: then a caller who pushes a few ops and reads the result
// pays for no wake, because the caller runs them itself (bench: BM_Pending_RoundTrip). An idle device ends in a sleep without end.
void DeviceActor::sleep(int& timed_sleeps, std::uint64_t& seen_records) {
  const std::uint64_t records = records_seen_.load(std::memory_order_acquire);
  if (records != seen_records) {
    seen_records = records;
    timed_sleeps = 0;
  }
  // Who holds the token looks after the deadlines, and wakes this thread when it leaves some behind.
  const std::int64_t lane_deadline =
      endpoint_->doorbell.is_free() ? next_deadline_.load(std::memory_order_acquire) : 0;
  const Deadline until =
      lane_deadline == 0 ? Deadline::never() : Deadline::at(TimePoint(Duration(lane_deadline)));
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

void DeviceActor::run_borrowed_erased(UntilFn until,
                                      const void* context,
                                      Deadline deadline) noexcept {
  ++tokens_lent_;
  static_cast<void>(run(until, context, deadline));
}

bool DeviceActor::run(UntilFn until, const void* context, Deadline deadline) noexcept {
  // Once the token is given back the actor may be gone: whoever called keeps the endpoint, and nothing else is touched then.
  DeviceEndpoint& endpoint = *endpoint_;
  endpoint.note_holder();
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
      return true;
    }
    if (!ready_.empty() && !is_enough) {
      LaneState& lane = ready_.take(urgent_waits_ > 0);
      const bool may_join = join_.count_turn(lane);
      while (!may_join && !join_.is_empty()) {
        run_join_group();  // nobody waits for a lane of another kind
      }
      take_turn(lane, until, context);
      has_worked = true;
      continue;
    }
    records_seen_.store(records_, std::memory_order_release);
    // A borrower leaves the parked lanes' deadlines, and the end of a shutdown, to the actor's thread.
    const bool leaves_duties = until != nullptr && (is_stopping_ || !parked_.empty());
    if (ready_.empty()) {
      if (endpoint.doorbell.try_release()) {
        if (leaves_duties) {
          endpoint.wake_if_free();
        }
        return true;
      }
    } else if (is_enough) {
      endpoint.doorbell.release_with_work();
      endpoint.wake_if_free();
      return false;
    }
  }
}

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

void DeviceActor::when_idle(DeviceEndpoint::ControlFn question) {
  questions_.push_back(std::move(question));
  question_turns_ = 0;
}

void DeviceActor::answer_questions() {
  for (DeviceEndpoint::ControlFn& question : std::exchange(questions_, {})) {
    obey(question);
  }
}

// A message may carry someone else's work (LentRegion::run_on_device): what it throws must not end the loop.
void DeviceActor::obey(DeviceEndpoint::ControlFn& message) {
  try {
    message(*this);
  } catch (...) {
    static_cast<void>(note_thrown(*endpoint_, "a control message"));
  }
}

void DeviceActor::collect() {
  const Doorbell::Rung rung = endpoint_->doorbell.take();
  for (Lane* lane = rung.lanes; lane != nullptr;) {
    Lane* next = lane->doorbell_next;
    make_ready(state_of(lane->id()));
    lane = next;
  }
  if (rung.inbox) {
    for (DeviceEndpoint::ControlFn& message : endpoint_->take_inbox()) {
      obey(message);
    }
  }
  if (!parked_.empty()) {
    std::int64_t earliest = 0;
    for (std::size_t i = 0; i < parked_.size();) {
      LaneState* lane = parked_[i];
      if (lane->deadline.has_passed()) {
        expire(*lane);  // takes it out of parked_
        continue;
      }
      const std::int64_t time =
          lane->deadline.is_never() ? 0 : lane->deadline.time().time_since_epoch().count();
      earliest = time != 0 && (earliest == 0 || time < earliest) ? time : earliest;
      ++i;
    }
    if (is_stopping_ && !stop_limit_.is_never()) {
      const std::int64_t limit = stop_limit_.time().time_since_epoch().count();
      earliest = earliest == 0 ? limit : std::min(earliest, limit);
    }
    next_deadline_.store(earliest, std::memory_order_release);
  } else if (next_deadline_.load(std::memory_order_acquire) != 0) {
    next_deadline_.store(0, std::memory_order_release);
  }
}

void DeviceActor::take_turn(LaneState& lane, UntilFn until, const void* context) {
  lane.is_ready = false;
  for (int count = 0; count < kTurnRecords; ++count) {
    const OpRecord* record = lane.lane->front();
    if (record == nullptr) {
      break;
    }
    endpoint_->note_record(lane.id, record->kind, record->sequence);
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
  if (!lane.deferred.empty()) {
    settle(lane.deferred, lane.id);
  }
  if (!lane.watchers.empty()) {
    notify_watchers(lane);
  }
  if (lane.parked != ParkReason::none || lane.is_ready) {
    return;  // stays rung; its waker makes it ready again, or the join does
  }
  if (lane.lane->front() != nullptr) {
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
  if (dispatch_.lost() && !is_lost_) {
    note_loss();
  }
}

// ---- lanes ----

void DeviceActor::set_priority(LaneId id, Priority priority) {
  if (endpoint_->lanes.find(id) != nullptr) {
    LaneState& lane = state_of(id);
    urgent_waits_ -= waits_urgently(lane) ? 1 : 0;
    lane.priority = priority;
    urgent_waits_ += waits_urgently(lane) ? 1 : 0;
  }
}

LaneState& DeviceActor::state_of(LaneId id) {
  LaneState* const known = lanes_.find(id);
  return known != nullptr ? *known : lanes_.make(*endpoint_->lanes.find(id));
}

void DeviceActor::make_ready(LaneState& lane) {
  if (!lane.is_ready && lane.parked == ParkReason::none) {
    lane.is_ready = true;
    ready_.push(lane);
    join_.expect(lane);
  }
}

void DeviceActor::park(LaneState& lane, ParkReason reason, Deadline deadline) {
  memory_waits_ += reason == ParkReason::memory ? 1 : 0;
  urgent_waits_ += waits_urgently(lane) ? 1 : 0;
  lane.parked = reason;
  lane.deadline = deadline;
  parked_.push_back(&lane);
  const std::int64_t time = deadline.is_never() ? 0 : deadline.time().time_since_epoch().count();
  const std::int64_t known = next_deadline_.load(std::memory_order_acquire);
  if (time != 0 && (known == 0 || time < known)) {
    next_deadline_.store(time, std::memory_order_release);
  }
}

void DeviceActor::park_on(Slot& slot, LaneState& lane, Deadline deadline) {
  slot.waiting.push_back(&lane);
  lane.awaited_slot = &slot;
  park(lane, ParkReason::slot, deadline);
}

ErrorRef DeviceActor::late(const OpView& op, const LaneState& lane, const char* text) {
  return dispatch_.with_provenance(
      Error{.code = ErrorCode::deadline_exceeded, .text = text, .report = report()}, op, lane.id);
}

void DeviceActor::unpark(LaneState& lane) {
  if (lane.parked == ParkReason::none) {
    return;
  }
  memory_waits_ -= lane.parked == ParkReason::memory ? 1 : 0;
  urgent_waits_ -= waits_urgently(lane) ? 1 : 0;
  lane.parked = ParkReason::none;
  std::erase(parked_, &lane);
  make_ready(lane);
}

void DeviceActor::expire(LaneState& lane) {
  if (lane.parked == ParkReason::loan) {
    expire_loan(lane,
                dispatch_.lost() ? dispatch_.lost()
                                 : std::make_shared<const Error>(Error{
                                       .code = ErrorCode::deadline_exceeded,
                                       .text = "lent bytes were not given back before the deadline",
                                       .report = report()}));
  } else {
    if (lane.parked == ParkReason::slot) {
      std::erase(lane.awaited_slot->waiting, &lane);
    }
    lane.has_expired = true;
  }
  unpark(lane);
  wake_readers();
}

void DeviceActor::wake_readers() {
  for (LaneState* woken : std::exchange(dispatch_.woken, {})) {
    unpark(*woken);
  }
}

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

void DeviceActor::stop(Deadline limit) noexcept {
  is_stopping_ = true;
  stop_limit_ = limit;
}

void DeviceActor::finish_stop() noexcept {
  const auto closed = std::make_shared<const Error>(endpoint_->closed_error());
  has_stopped_ = true;
  for (DeviceEndpoint::ControlFn& message : endpoint_->stop_inbox()) {
    obey(message);  // it may look into the lanes, which are the actor's up to here
  }
  answer_questions();
  const Doorbell::Rung rung = endpoint_->doorbell.stop();
  // Only the lanes in this actor's hands: any other has its producer for a consumer now, which finds the doorbell stopped when it
  // rings. The lanes themselves end with the endpoint.
  for (Lane* lane = rung.lanes; lane != nullptr;) {
    Lane* next = lane->doorbell_next;
    reject_all(*endpoint_, *lane, closed);
    lane = next;
  }
  lanes_.for_each([&](const LaneState& lane) {
    if (lane.is_ready || lane.parked != ParkReason::none) {
      reject_all(*endpoint_, *lane.lane, closed);
    }
  });
}

void DeviceActor::reject_all(DeviceEndpoint& endpoint, Lane& lane, const ErrorRef& error) {
  do {
    while (const OpRecord* record = lane.front()) {
      reject_ticket(endpoint, OpView(*record, lane.front_blob()), error);
      lane.pop();
    }
  } while (lane.finish_turn() == Lane::Turn::more);
}

// ---- figures ----

MemoryStatistics DeviceActor::memory() const {
  const MemoryReport report = memory_->strategy->report();
  return MemoryStatistics{.live_bytes = report.total.live_bytes,
                          .reserved_bytes = report.total.reserved_bytes,
                          .peak_live_bytes = report.total.peak_live_bytes,
                          .peak_reserved_bytes = report.total.peak_reserved_bytes,
                          .budget_bytes = report.budget_bytes,
                          .allocation_count = static_cast<std::int64_t>(report.total.acquire_count),
                          .in_place_count = static_cast<std::int64_t>(report.in_place_count),
                          .live_tensor_count = handles_.live_count(),
                          .fragmentation = report.total.fragmentation()};
}

MemoryReport DeviceActor::memory_report() const {
  MemoryReport report = memory_->strategy->report();
  report.rungs.wait_count += dispatch_.rungs().wait_count;
  report.rungs.refuse_count += dispatch_.rungs().refuse_count;
  return report;
}

DeviceStatistics DeviceActor::statistics() noexcept {
  DeviceStatistics figures = dispatch_.statistics();
  figures.records = records_;
  figures.tokens_lent = tokens_lent_;
  return figures;
}

}  // namespace hearth
