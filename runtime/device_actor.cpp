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

ErrorRef cancelled(const char* text) { return std::make_shared<const Error>(Error{.code = ErrorCode::cancelled, .text = text}); }

}  // namespace

DeviceActor::DeviceActor(IntrusivePtr<DeviceEndpoint> endpoint, std::unique_ptr<Backend> backend, const DeviceActorOptions& options)
    : endpoint_(std::move(endpoint)),
      backend_(std::move(backend)),
      pool_(backend_->pages(), PoolOptions{.budget_bytes = options.budget_bytes}),
      handles_(pool_),
      dispatch_(*endpoint_, *backend_, handles_) {}

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
  const std::int64_t lane_deadline = next_deadline_.load(std::memory_order_acquire);
  const Deadline until = lane_deadline == 0 ? Deadline::never() : Deadline::at(TimePoint(Duration(lane_deadline)));
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

void DeviceActor::run_borrowed_erased(UntilFn until, const void* context, Deadline deadline) noexcept {
  ++tokens_lent_;
  static_cast<void>(run(until, context, deadline));
}

bool DeviceActor::run(UntilFn until, const void* context, Deadline deadline) noexcept {
  while (true) {
    schedule_point();
    collect();
    const bool is_enough = until != nullptr && (until(context) || deadline.has_passed());
    const bool ends_here = is_stopping_ && until == nullptr;
    if (ends_here && (stop_limit_.has_passed() || (ready_.empty() && parked_.empty()))) {
      finish_stop();
      return true;
    }
    if (!ready_.empty() && !is_enough) {
      LaneState* lane = ready_.front();
      ready_.pop_front();
      take_turn(*lane, until, context);
      continue;
    }
    records_seen_.store(records_, std::memory_order_release);
    // A borrower leaves the parked lanes' deadlines, and the end of a shutdown, to the actor's thread.
    const bool leaves_duties = until != nullptr && (is_stopping_ || !parked_.empty());
    if (ready_.empty()) {
      if (endpoint_->doorbell.try_release()) {
        if (leaves_duties) {
          endpoint_->wake_if_free();
        }
        return true;
      }
    } else if (is_enough) {
      endpoint_->doorbell.release_with_work();
      endpoint_->wake_if_free();
      return false;
    }
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
      message(*this);
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
      const std::int64_t time = lane->deadline.is_never() ? 0 : lane->deadline.time().time_since_epoch().count();
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
    if (consume(lane, OpView(*record, lane.lane->front_blob())) == Step::parked) {
      break;
    }
    ++records_;
    lane.has_expired = false;
    lane.lane->pop();
    if (!dispatch_.woken.empty()) {
      wake_readers();
    }
    if (endpoint_->doorbell.has_news()) {
      break;  // another lane or a message came: a long turn must not keep it waiting
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
  if (lane.parked != ParkReason::none) {
    return;  // stays rung; its waker makes it ready again
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
  } catch (const std::exception& thrown) {
    // Our own bug: an actor must go on, so the op carries the blame.
    dispatch_.fail(op, lane, dispatch_.with_provenance(Error{.code = ErrorCode::internal, .text = thrown.what()}, op, lane.id));
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
    const ErrorRef error = late(op, lane);
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
      dispatch_.run(op, lane);
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
      const std::unique_ptr<SyncTicket> ticket(static_cast<SyncTicket*>(op.attributes<TicketAttributes>().ticket));
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
  if (op.record().blob_size_bytes > 0 && !are_done(uses_of_drop(op.attributes<LastUsesBlob>()), lane.id)) {
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
  if (ticket->transfer && !ticket->transfer->is_ready && !lane.has_expired) {
    ticket->transfer->waiting_lane = lane.id;
    park(lane, ParkReason::transfer, Deadline::in(kDefaultWait));
    return Step::parked;
  }
  dispatch_.upload(op, lane);
  return Step::consumed;
}

void DeviceActor::transfer_arrived(LaneId id) {
  if (id.value != 0 && id.value < lanes_.size() && lanes_[id.value] && lanes_[id.value]->parked == ParkReason::transfer) {
    unpark(*lanes_[id.value]);
  }
}

// ---- loans ----

DeviceActor::Step DeviceActor::lend(LaneState& lane, const OpView& op) {
  const std::unique_ptr<LendTicket> ticket(static_cast<LendTicket*>(op.attributes<TicketAttributes>().ticket));
  const Operand out = op.output(0);
  const Result<Storage*> storage = dispatch_.prepare_loan(op, lane);
  if (!storage.has_value()) {
    ticket->ready(storage.shared_error());
    return Step::consumed;
  }
  const Layout& layout = endpoint_->tables().shapes.layout(out.shape);
  const auto size = static_cast<std::size_t>(layout.shape.element_count() * size_bytes(out.dtype));
  lane.loan = Loan{next_loan_++, out, storage.value()};
  // The record is done: it leaves the lane now, and the lane waits before the next one.
  lane.has_expired = false;
  lane.lane->pop();
  ++records_;
  park(lane, ParkReason::loan, ticket->deadline);
  ticket->ready(LentRegion(endpoint_, lane.id, lane.loan.number, std::span<std::byte>(storage.value()->block.data, size), out.dtype));
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
  LaneState& lane = state_of(id);
  dispatch_.finish_loan(lane.loan.out, lane.id, lane.loan.storage, status);
  unpark(lane);
  wake_readers();
}

void DeviceActor::expire_loan(LaneState& lane) {
  HandleTable::share(*lane.loan.storage);
  quarantine_.push_back(lane.loan);
  dispatch_.finish_loan(lane.loan.out,
                        lane.id,
                        lane.loan.storage,
                        Error{.code = ErrorCode::deadline_exceeded,
                              .text = "lent bytes were not given back before the deadline",
                              .op = "lend",
                              .device = endpoint_->name(),
                              .lane = lane.id.value});
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
  const std::unique_ptr<SyncTicket> ticket(static_cast<SyncTicket*>(op.attributes<TicketAttributes>().ticket));
  lane.in_group = false;
  const std::vector<GroupRecord> group = std::exchange(lane.group, {});
  Status status;
  if (ticket == nullptr) {  // the client gave the group up
    dispatch_.abandon_group(group, lane, cancelled("the update group was not committed"));
  } else if (unborn != nullptr) {
    status = late(op, lane);
    dispatch_.abandon_group(group, lane, status.shared_error());
  } else {
    status = dispatch_.run_group(group, lane);
  }
  for (const GroupRecord& entry : std::exchange(lane.group_drops, {})) {
    drop(lane, OpView(entry.record, entry.blob.data()));
  }
  if (ticket != nullptr) {
    ticket->finish(status.shared_error());
  }
  return Step::consumed;
}

// ---- lanes ----

LaneState& DeviceActor::state_of(LaneId id) {
  if (id.value >= lanes_.size()) {
    lanes_.resize(id.value + 1);
  }
  if (!lanes_[id.value]) {
    lanes_[id.value] = std::make_unique<LaneState>(*endpoint_->lanes.find(id));
  }
  return *lanes_[id.value];
}

void DeviceActor::make_ready(LaneState& lane) {
  if (!lane.is_ready && lane.parked == ParkReason::none) {
    lane.is_ready = true;
    ready_.push_back(&lane);
  }
}

void DeviceActor::park(LaneState& lane, ParkReason reason, Deadline deadline) {
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

ErrorRef DeviceActor::late(const OpView& op, const LaneState& lane) const {
  return dispatch_.with_provenance(
      Error{.code = ErrorCode::deadline_exceeded, .text = "an operand from another stream was not made in time"}, op, lane.id);
}

void DeviceActor::unpark(LaneState& lane) {
  if (lane.parked == ParkReason::none) {
    return;
  }
  lane.parked = ParkReason::none;
  std::erase(parked_, &lane);
  make_ready(lane);
}

void DeviceActor::expire(LaneState& lane) {
  if (lane.parked == ParkReason::loan) {
    expire_loan(lane);
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
    if (id.value >= lanes_.size() || !lanes_[id.value]) {
      continue;
    }
    LaneState& watcher = *lanes_[id.value];
    if (!watcher.deferred.empty()) {
      settle(watcher.deferred, watcher.id);
    }
    if (watcher.parked == ParkReason::lanes) {
      unpark(watcher);
    }
    if (watcher.deferred.empty() && watcher.lane->is_orphaned() && !watcher.is_ready && watcher.parked == ParkReason::none &&
        watcher.lane->front() == nullptr) {
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
  lanes_[id.value].reset();
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
  const Doorbell::Rung rung = endpoint_->doorbell.stop();
  for (DeviceEndpoint::ControlFn& message : endpoint_->stop_inbox()) {
    message(*this);
  }
  // Only the lanes in this actor's hands: any other has its producer for a consumer now, which finds the doorbell stopped when it
  // rings. The lanes themselves end with the endpoint.
  for (Lane* lane = rung.lanes; lane != nullptr;) {
    Lane* next = lane->doorbell_next;
    reject_all(*lane, closed);
    lane = next;
  }
  for (const std::unique_ptr<LaneState>& lane : lanes_) {
    if (lane && (lane->is_ready || lane->parked != ParkReason::none)) {
      reject_all(*lane->lane, closed);
    }
  }
}

void DeviceActor::reject_all(Lane& lane, const ErrorRef& error) {
  do {
    while (const OpRecord* record = lane.front()) {
      reject_record(OpView(*record, lane.front_blob()), error);
      lane.pop();
    }
  } while (lane.finish_turn() == Lane::Turn::more);
}

void DeviceActor::reject_record(const OpView& op, const ErrorRef& error) {
  switch (op.kind()) {
    case OpKind::upload: {
      const std::unique_ptr<UploadTicket> ticket(static_cast<UploadTicket*>(op.attributes<TicketAttributes>().ticket));
      return;
    }
    case OpKind::readback: {
      const std::unique_ptr<ReadTicket> ticket(static_cast<ReadTicket*>(op.attributes<TicketAttributes>().ticket));
      ticket->finish(*ticket, error);
      return;
    }
    case OpKind::lend: {
      const std::unique_ptr<LendTicket> ticket(static_cast<LendTicket*>(op.attributes<TicketAttributes>().ticket));
      ticket->ready(error);
      return;
    }
    case OpKind::sync:
    case OpKind::group_end: {
      const std::unique_ptr<SyncTicket> ticket(static_cast<SyncTicket*>(op.attributes<TicketAttributes>().ticket));
      if (ticket) {
        ticket->finish(error);
      }
      return;
    }
    default:
      return;
  }
}

// ---- figures ----

MemoryStatistics DeviceActor::memory() const {
  const MemoryReport report = pool_.report();
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

DeviceStatistics DeviceActor::statistics() noexcept {
  DeviceStatistics figures = dispatch_.statistics();
  figures.records = records_;
  figures.tokens_lent = tokens_lent_;
  return figures;
}

}  // namespace hearth
