#include "stream_state.hpp"

#include "device_message.hpp"
#include "tickets.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/fiber_mark.hpp>
#include <hearth/runtime/base/host_kernel_scope.hpp>
#include <hearth/runtime/base/progress_limit.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth {

StreamState::StreamState(IntrusivePtr<DeviceEndpoint> endpoint)
    : endpoint_(std::move(endpoint)),
      lane_(endpoint_->lanes.open()),
      lane_id_(lane_.id()),
      slots_(endpoint_->slots.take_pool()) {
  kept_.reserve(kKeptObjects);
  endpoint_->tables().log.trace([this] {
    return fmt::format("device {}: stream {} opens", endpoint_->name(), lane_id_.value);
  });
}

StreamState::~StreamState() {
  // Drops that still wait for room go to the control inbox, which never refuses.
  while (first_drop_ != nullptr) {
    const std::unique_ptr<TensorImpl> impl(std::exchange(first_drop_, first_drop_->next_drop));
    endpoint_->post_drop(*impl);
  }
  for (TensorImpl* impl : kept_) {
    const std::unique_ptr<TensorImpl> owner(impl);
  }
  endpoint_->tables().log.trace([this] {
    return fmt::format("device {}: stream {} closes after {} records",
                       endpoint_->name(),
                       lane_id_.value,
                       lane_.pushed());
  });
  endpoint_->slots.leave_pool(slots_);
  if (lane_.orphan()) {
    endpoint_->ring(lane_);
  }
}

TensorImpl* StreamState::make_tensor(DType dtype, ShapeId shape) {
  const SlotPool::Name name = slots_->take();
  TensorImpl* impl = nullptr;
  if (kept_.empty()) {
    auto made = std::make_unique<TensorImpl>();
    made->endpoint = endpoint_;
    impl = made.release();
  } else {
    impl = kept_.back();
    kept_.pop_back();
  }
  impl->references.store(1, std::memory_order_release);
  impl->slot = name.slot;
  impl->generation = name.generation;
  impl->shape_id = shape;
  impl->dtype = dtype;
  impl->home = lane_id_;
  impl->unnamed_weight.store(0, std::memory_order_release);  // partner: WeightWatch
  impl->path.store(PathId{}, std::memory_order_release);
  impl->layout = &endpoint_->tables().shapes.layout(shape);
  return impl;
}

// No record has named the slot, so it returns to the pool with its generation and not through the
// device.
void StreamState::unmake_tensor(TensorImpl* impl) noexcept {
  slots_->put_back(impl->slot);
  recycle(impl);
}

void StreamState::recycle(TensorImpl* impl) noexcept {
  if (kept_.size() == kKeptObjects || impl->endpoint != endpoint_) {
    const std::unique_ptr<TensorImpl> owner(impl);
    return;
  }
  // Only a foreign tensor has entries to clear; others pay for one load.
  if (impl->is_foreign.load(std::memory_order_acquire)) {
    impl->is_foreign.store(false, std::memory_order_release);
    impl->has_many_users.store(false, std::memory_order_release);
    for (LaneUse& use : impl->foreign_uses) {
      use.lane.store(0, std::memory_order_release);
      use.sequence.store(0, std::memory_order_release);
    }
  }
  impl->next_drop = nullptr;
  kept_.push_back(impl);
}

bool StreamState::push(OpRecord& record, std::span<const std::byte> blob) {
  if (!lane_.try_push(record, blob)) {
    return false;
  }
  if (lane_.needs_ring()) {
    endpoint_->ring(lane_);
  }
  // A caller that reads soon runs the ops itself; a longer program is worth a wake.
  constexpr std::uint64_t kWakeEvery = 32;
  if (record.sequence % kWakeEvery == 0 && lane_.backlog() >= kWakeEvery) {
    endpoint_->wake_if_free();
  }
  detail::schedule_point();
  return true;
}

void StreamState::submit(OpRecord& record, std::span<const std::byte> blob) {
  if (endpoint_->is_closed()) [[unlikely]] {
    throw_closed(record);
  }
  if (endpoint_->tables().recorder.is_on()) {
    submit_recorded(record, blob);
    return;
  }
  push_waiting(record, blob);
}

void StreamState::push_waiting(OpRecord& record, std::span<const std::byte> blob) {
  while ((must_flush() && !flush()) || !push(record, blob)) {
    wait_for_room(record);
  }
}

// The order matters. Reads of strangers are pushed first, since this op may be their last use.
// Queued drops follow, since the op is noted with its number, which is its place in the lane.
void StreamState::submit_recorded(OpRecord& record, std::span<const std::byte> blob) {
  Recorder& recorder = endpoint_->tables().recorder;
  OpRecord recorded = record;
  recorded.blob_size_bytes = static_cast<std::uint32_t>(blob.size());
  const OpView op(recorded, blob.data());
  for (Recorder::UnrecordedInput& unrecorded :
       recorder.admit_unrecorded_inputs(*endpoint_, lane_id_, op)) {
    OpRecord read;
    read.kind = OpKind::readback;
    read.input_count = 1;
    read.source = record.source;
    read.operands[0] = unrecorded.operand;
    read.operands[0].use = Use::read;
    const TicketAttributes attributes{.ticket = unrecorded.read.get()};
    std::memcpy(read.immediate, &attributes, sizeof attributes);
    push_waiting(read, {});
    static_cast<void>(unrecorded.read.release());
  }
  while (must_flush() && !flush()) {
    wait_for_room(record);
  }
  const auto mark = recorder.note(*endpoint_, lane_id_, lane_.pushed() + 1, op);
  try {
    push_waiting(record, blob);
  } catch (...) {
    if (mark) {
      recorder.cancel(*mark);
    }
    throw;
  }
}

namespace {

// Records of an open update group are pushed whatever the stream's limits are: the group must end.
StreamLimits limits_for(const OpRecord& record, const StreamLimits& limits) {
  const bool is_limited = record.kind != OpKind::group_end && !is_update(record);
  return is_limited ? limits : StreamLimits{};
}

}  // namespace

// Phases: determine the limits of this wait; drain the lane on this thread if none of them is near;
// park until there is room, checking for progress periodically.
void StreamState::wait_for_room(const OpRecord& record) {
  detail::require_no_host_kernel("room in a stream");
  detail::require_no_fibers("room in a stream");
  const auto [end, stop] = limits_for(record, limits_);
  const std::chrono::nanoseconds wait_limit = endpoint_->tables().wait_limit;
  if (end.is_never() && !stop.stop_possible()) {  // a thread that runs a kernel cannot leave it
    endpoint_->help_drain(lane_, Deadline::in(wait_limit));
  }
  ProgressLimit limit(wait_limit, endpoint_->progress());
  constexpr const char* kSubject = "room in a stream";
  detail::Watchdog& watchdog = *endpoint_->tables().watchdog;
  detail::Watchdog::Wait watched(
      &watchdog, kSubject, endpoint_->name(), std::min(limit.deadline(), end));
  // Copies first: the stop may arrive while this wait ends.
  const std::stop_callback on_stop(
      stop, [parker = IntrusivePtr<detail::Parker>(&detail::current_context().parker())] {
        // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): this may go before its end
        const IntrusivePtr<detail::Parker> kept = parker;
        kept->unpark();
      });
  while (lane_.announce_waiting()) {
    endpoint_->wake_if_free();
    if (stop.stop_requested()) {
      throw_full(record, {.code = ErrorCode::cancelled, .text = " until a stop was requested"});
    }
    if (detail::current_context().parker().park(std::min(limit.next_check(), end)) ==
        detail::Wake::deadline) {
      Error error{.code = ErrorCode::deadline_exceeded, .text = ""};
      if (end.has_passed()) {
        error.text = " until its deadline";
        throw_full(record, std::move(error));
      }
      if (limit.has_expired(endpoint_->progress())) {
        watchdog.attach_report(error, kSubject);
        throw_full(record, std::move(error));
      }
      watched.renew(std::min(limit.deadline(), end));
    }
    if (endpoint_->is_closed()) {
      throw_closed(record);
    }
  }
}

void StreamState::throw_closed(const OpRecord& record) const {
  throw_error(endpoint_->closed_error(endpoint_->tables().sources.location(record.source)));
}

void StreamState::throw_full(const OpRecord& record, Error error) {
  error.text = fmt::format("stream {} of device {} stayed full{}: {} ops wait",
                           lane_id_.value,
                           endpoint_->name(),
                           error.text,
                           lane_.backlog());
  error.op = endpoint_->tables().op_name(record);
  error.device = endpoint_->name();
  error.stream = lane_id_.value;
  error.location = endpoint_->tables().sources.location(record.source);
  throw_error(std::move(error));
}

void StreamState::set_limits(StreamLimits limits) {
  const bool has_any = !limits.deadline.is_never() || limits.stop.stop_possible();
  const bool had_any = !limits_.deadline.is_never() || limits_.stop.stop_possible();
  limits_ = std::move(limits);
  new_stop_.reset();
  if (limits_.stop.stop_possible()) {
    new_stop_ = std::make_unique<StopWatch>(limits_.stop, endpoint_, lane_id_);
  }
  has_new_limits_ = has_new_limits_ || has_any || had_any;
}

// Not through submit(): limits are no part of a recording, since each replay would cancel other
// ops.
bool StreamState::push_limits() {
  const LimitAttributes attributes{.deadline = limits_.deadline, .stop = new_stop_.get()};
  OpRecord record;
  record.kind = OpKind::limit;
  std::memcpy(record.immediate, &attributes, sizeof attributes);
  if (!push(record, {})) {
    return false;
  }
  static_cast<void>(new_stop_.release());  // owned by the device from here on
  has_new_limits_ = false;
  return true;
}

// Sends a message and no record, so that it overtakes queued work. Records pushed meanwhile have
// higher numbers and are not cancelled.
void StreamState::cancel() noexcept {
  const std::uint64_t pushed = lane_.pushed_seen();
  if (lane_.consumed() < pushed) {
    endpoint_->post(CancelRecords{.lane = lane_id_, .through = pushed});
  }
}

void StreamState::discard_group() {
  OpRecord record;  // no ticket: discards the group
  record.kind = OpKind::group_end;
  submit(record, {});
  open_group_ = nullptr;
}

void StreamState::refuse_unmade(const TensorImpl& tensor, std::string_view op, SourceLoc loc) {
  const OpenGroup* const group = open_group();
  if (group == nullptr || !group->makes(tensor)) {
    return;
  }
  throw_error(Error{
      .code = ErrorCode::invalid_argument,
      .text = fmt::format("{}: {} is a result of the update group opened at {}:{}, which makes it "
                          "when it is committed; call commit() first",
                          op,
                          describe(tensor.dtype, tensor.layout->shape),
                          group->opened.file,
                          group->opened.line),
      .op = std::string(op),
      .module_path = endpoint_->tables().paths.path(tensor.path.load(std::memory_order_acquire)),
      .device = endpoint_->name(),
      .location = loc});
}

// A tensor that only this stream used needs no list of uses: its lane orders them. The recorder is
// notified after the push, since a drop without room is pushed again later.
bool StreamState::push_drop(TensorImpl& impl) {
  OpRecord record;
  record.kind = OpKind::drop;
  record.input_count = 1;
  record.operands[0] = impl.operand(Use::read_last);
  const bool is_elsewhere = impl.home != lane_id_;
  bool is_pushed = false;
  if (!is_elsewhere && !impl.is_foreign.load(std::memory_order_acquire)) {
    is_pushed = push(record, {});
  } else {
    const LastUsesBlob blob = impl.last_uses(lane_id_);
    is_pushed = push(record, std::as_bytes(std::span(&blob, 1)));
  }
  if (is_pushed && endpoint_->tables().recorder.is_on()) {
    endpoint_->tables().recorder.record_drop(*endpoint_, lane_id_, record.operands[0]);
  }
  return is_pushed;
}

// Pushes in the order in which the tensors died: the first drop without room holds back all behind
// it.
bool StreamState::flush_drops() {
  while (first_drop_ != nullptr) {
    if (!push_drop(*first_drop_)) {
      return false;
    }
    TensorImpl* done = std::exchange(first_drop_, first_drop_->next_drop);
    recycle(done);
  }
  last_drop_ = nullptr;
  return true;
}

// Runs in destructors, so it never waits: a drop without room is pushed before the next record.
void StreamState::drop(TensorImpl* impl) noexcept {
  if (endpoint_->is_closed()) {
    const std::unique_ptr<TensorImpl> owner(impl);
    return;
  }
  if ((first_drop_ == nullptr || flush_drops()) && push_drop(*impl)) {
    recycle(impl);
    return;
  }
  impl->next_drop = nullptr;
  (first_drop_ == nullptr ? first_drop_ : last_drop_->next_drop) = impl;
  last_drop_ = impl;
}

// Compares thread numbers instead of taking a lock: two threads at once are a mistake to report,
// not to wait for.
void StreamState::enter(SourceLoc loc) {
  const std::uint64_t me = detail::current_context().id().value;
  std::uint64_t user = 0;
  if (!user_.compare_exchange_strong(
          user, me, std::memory_order_acq_rel, std::memory_order_acquire) &&
      user != me) {
    throw_error(Error{.code = ErrorCode::stream_misuse,
                      .text = fmt::format("stream {} of device {} is in use by another thread",
                                          lane_id_.value,
                                          endpoint_->name()),
                      .device = endpoint_->name(),
                      .stream = lane_id_.value,
                      .location = loc});
  }
  ++depth_;
}

void StreamState::leave() noexcept {
  if (--depth_ == 0) {
    user_.store(0, std::memory_order_release);  // partner: enter
  }
}

DeviceClient& make_client(DeviceEndpoint& endpoint, SourceLoc loc) {
  if (endpoint.is_closed()) {
    throw_error(endpoint.closed_error(loc));
  }
  // A thread that outlives many runtimes must not keep a stream of each.
  detail::current_context().drop_obsolete();
  try {
    return detail::current_context().attach(
        endpoint.key(), std::make_unique<DeviceClient>(IntrusivePtr<DeviceEndpoint>(&endpoint)));
  } catch (const std::bad_alloc&) {
    throw_error(Error{
        .code = ErrorCode::out_of_memory,
        .text = fmt::format("the program has no memory for a stream of device {}", endpoint.name()),
        .device = endpoint.name(),
        .location = loc});
  }
}

}  // namespace hearth
