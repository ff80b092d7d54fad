// Runs one op, from slots to a call of the backend and back to slots. The actor spends most of its
// time for a small op here: 146 ns with its drop (bench: BM_Actor_TinyOps). So code for failures is
// out of line, and buffers are reused.
// The order of each op: memory, kernel, outputs, and last the inputs. Until the inputs are
// consumed, the op can still be deferred or fail.
#include "dispatch.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

#include "runtime/client/tickets.hpp"
#include "runtime/device/memory/guarded.hpp"
#include "runtime/device/tuning/picks.hpp"
#include "view_layout.hpp"

namespace hearth {

Ran Dispatch::run(const ResolvedOp& op, LaneState& lane, OnShortage rule) {
  const std::uint64_t releases = handles_.release_count();
  Ran ran = Ran::failed;
  if (op.kind() == OpKind::readback) {
    ran = readback(op, lane, rule);
  } else if (ErrorRef poison = first_poison(op)) {
    fail(op, lane, poison);
  } else if (op_info(op.kind()).op_class == OpClass::view) {
    ran = run_view(op, lane, rule);
  } else {
    ran = run_kernel(op, lane, rule);
  }
  if (ran == Ran::short_of_memory) {
    uncount_deferred(releases, rule);  // it is retried, and counts then
  } else if (ran != Ran::in_part) {
    statistics_.foreign_uses += op.foreign_uses();
  }
  return ran;
}

Result<GroupMemory> Dispatch::prepare_group(std::span<const GroupRecord> group,
                                            LaneState& lane,
                                            OnShortage rule) {
  const std::uint64_t releases = handles_.release_count();
  Result<GroupMemory> memory = memory_of_group(group, lane, rule);
  if (!memory.has_value() && is_short(memory.status())) {
    uncount_deferred(releases, rule);
  }
  return memory;
}

// After an exception in the middle of an op some outputs may exist already. Needs no memory and
// cannot fail.
void Dispatch::fail(const OpView& op, LaneState& lane, const ErrorRef& error) {
  end_copy(lane);
  account(error, lane);
  poison_outputs(op, lane, error);
  consume_inputs(op);
}

void Dispatch::fail(const ResolvedOp& op, LaneState& lane, const ErrorRef& error) {
  account(error, lane);
  poison_outputs(op.op(), lane, error);
  consume_inputs(op);
}

ErrorRef Dispatch::cancel(const OpView& view, LaneState& lane, const Error& why) {
  ErrorRef error = first_poison(resolve(view, lane.id));
  if (!error) {
    error = with_provenance(why, view, lane.id);
  }
  ++statistics_.given_up_ops;
  fail(view, lane, error);
  return error;
}

[[gnu::noinline]] Ran Dispatch::fail_or_defer(const ResolvedOp& op,
                                              LaneState& lane,
                                              const Status& status) {
  if (is_short(status)) {
    return Ran::short_of_memory;
  }
  fail(op, lane, error_of(status, op.op(), lane.id));
  return Ran::failed;
}

// If one output gets no memory, the memory of the others is returned automatically. Flattened,
// because each small op takes this path; calls for failures are kept out of line by hand.
[[gnu::flatten]] Ran Dispatch::run_kernel(const ResolvedOp& op, LaneState& lane, OnShortage rule) {
  OutputMemory outputs;
  for (int i = 0; i < op.op().record().output_count; ++i) {
    Result<HeldStorage> storage = storage_for(op, i, rule);
    if (!storage.has_value()) {
      return fail_or_defer(op, lane, storage.status());
    }
    outputs.add(std::move(storage).value());
  }
  Status status = submit(op, outputs.all(), rule, !runs_inline_);
  if (!status.has_value() && is_compiling_) [[unlikely]] {
    precompile(lane);
    const DeviceEndpoint::CompileScope compiles(endpoint_);
    status = submit(op, outputs.all(), rule);
  }
  if (!status.has_value()) {
    return fail_or_defer(op, lane, status);
  }
  make_outputs(op.op(), lane, outputs.all());
  consume_inputs(op);
  return Ran::done;
}

const Expression* Dispatch::expression_of(const OpView& op) const noexcept {
  return op.kind() == OpKind::expression
             ? &endpoint_.tables()
                    .expressions[ExprId{op.attributes<ExpressionAttributes>().expression}]
             : nullptr;
}

const ExpressionTable& Dispatch::expressions() const noexcept {
  return endpoint_.tables().expressions;
}

const CustomCode* Dispatch::custom_of(const OpView& op) const noexcept {
  return op.kind() == OpKind::custom
             ? &endpoint_.tables().customs[CustomId{op.attributes<CustomAttributes>().custom}]->code
             : nullptr;
}

KernelCall Dispatch::call_of(const ResolvedOp& op,
                             std::span<const HeldStorage> storages,
                             std::span<TensorView> views) const {
  const auto inputs = static_cast<std::size_t>(op.input_count());
  for (std::size_t i = 0; i < inputs; ++i) {
    const Slot& slot = op.slot(static_cast<int>(i));
    views[i] = TensorView{slot.data, slot.layout, slot.dtype};
  }
  // Other ops do not use constants, and each input's storage costs a cache line.
  if (op_info(op.kind()).op_class == OpClass::contraction) {
    for (std::size_t i = 0; i < inputs; ++i) {
      views[i].constant = op.slot(static_cast<int>(i)).storage->constant.get();
    }
  }
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Operand operand = op.op().output(static_cast<int>(i));
    views[inputs + i] = TensorView{
        storages[i]->block.data, &endpoint_.tables().shapes.layout(operand.shape), operand.dtype};
  }
  return KernelCall{.op = op.op(),
                    .inputs = views.first(inputs),
                    .outputs = views.subspan(inputs),
                    .expression = expression_of(op.op()),
                    .custom = custom_of(op.op())};
}

Status Dispatch::submit(const ResolvedOp& op,
                        std::span<const HeldStorage> storages,
                        OnShortage rule,
                        bool is_deferrable) {
  if (op.kind() == OpKind::custom) [[unlikely]] {
    return submit_custom(op, storages, rule);
  }
  Launch launch{.call = call_of(op, storages, room_for_views(op.op())),
                .is_deferrable = is_deferrable};
  if (picks_ != nullptr && may_be_picked(op.kind())) {
    launch.pick = picks_->pick(launch.call, *kernels_);
  }
  if (!runs_inline_) [[unlikely]] {
    touch(op, storages);
  }
  Status status = submit_launch(launch, 1, rule, op.lane());
  return handles_.is_checked() && status.has_value() ? check_blocks(op, storages) : status;
}

// A custom kernel reads contiguous elements: other layouts are copied.
[[gnu::noinline]] Status Dispatch::submit_custom(const ResolvedOp& op,
                                                 std::span<const HeldStorage> storages,
                                                 OnShortage rule) {
  is_compiling_ = false;
  std::vector<HeldStorage> copies;
  std::vector<TensorView> views(static_cast<std::size_t>(op.op().record().operand_count()));
  Launch launch{.call = call_of(op, storages, views)};
  for (int i = 0; i < op.input_count(); ++i) {
    const Slot& slot = op.slot(i);
    if (!slot.layout->contiguous) {
      const Operand operand = op.op().input(i);
      HEARTH_TRY(HeldStorage copy, packed(op.op(), operand, slot, rule));
      views[static_cast<std::size_t>(i)] = {
          copy->block.data, &endpoint_.tables().shapes.layout(operand.shape), operand.dtype};
      copies.push_back(std::move(copy));
    }
  }
  if (!runs_inline_) {
    touch(op, storages);
    for (const HeldStorage& copy : copies) {
      touched_.reads.push_back(copy.get());
    }
  }
  Status status = submit_launch(launch, 1, rule, op.lane());
  return handles_.is_checked() && status.has_value() ? check_blocks(op, storages) : status;
}

// For strategies with guard bytes around blocks. Inputs are checked, too: a kernel that writes
// outside its outputs may hit them.
[[gnu::noinline]] Status Dispatch::check_blocks(const ResolvedOp& op,
                                                std::span<const HeldStorage> storages) {
  return guarded("the check of the memory strategy", [&]() -> Status {
    HEARTH_TRY_STATUS(wait_for_ops());
    for (const HeldStorage& storage : storages) {
      HEARTH_TRY_STATUS(handles_.check(*storage));
    }
    for (int i = 0; i < op.input_count(); ++i) {
      HEARTH_TRY_STATUS(handles_.check(*op.slot(i).storage));
    }
    return {};
  });
}

// A launch that was refused or found no scratch memory is retried, as a group or singly.
Status Dispatch::submit_launch(Launch& launch, std::size_t op_count, OnShortage rule, LaneId lane) {
  const bool is_watched = endpoint_.tables().trace().is_on() || journal_ != nullptr;
  Status status = is_watched ? submit_watched(launch, op_count, rule, lane)
                             : run_call("the kernel", launch, rule);
  statistics_.kernels += status.has_value() ? 1U : 0U;
  return status;
}

[[gnu::noinline]] Status Dispatch::submit_watched(Launch& launch,
                                                  std::size_t op_count,
                                                  OnShortage rule,
                                                  LaneId lane) {
  const RuntimeTables& tables = endpoint_.tables();
  const KernelCall& call = launch.call;
  const auto run = [&] {
    Status status = run_call("the kernel", launch, rule);
    if (status.has_value()) {
      record_launch({&launch, 1}, op_count);
    }
    return status;
  };
  if (!tables.trace().is_on()) {
    return run();
  }
  const detail::TraceEvent event = event_of(call.op, traced_name(call), op_count, lane);
  if (runs_inline_) {
    Status status = run();
    if (status.has_value()) {
      trace_until_now(event);
    }
    return status;
  }
  launch.timed_as = in_flight_.next_timed();
  traced_ = event;
  Status status = run();
  traced_.reset();
  return status;
}

// The name of a group is copied: its plan may be evicted before the trace is written.
std::string_view Dispatch::traced_name(const KernelCall& call) const {
  const RuntimeTables& tables = endpoint_.tables();
  if (call.epilogue == nullptr && call.expression == nullptr && call.prologue == nullptr) {
    return tables.op_name(call.op.record());
  }
  try {
    return tables.trace().keep(kernel_name(call, tables));
  } catch (const std::bad_alloc&) {
    return "group";
  }
}

detail::TimePoint Dispatch::traced_now() const noexcept {
  return endpoint_.tables().trace().is_on() ? detail::current_context().clock().now()
                                            : detail::TimePoint();
}

detail::TraceEvent Dispatch::event_of(const OpView& op,
                                      std::string_view name,
                                      std::size_t op_count,
                                      LaneId lane) const {
  const OpRecord& record = op.record();
  detail::TraceEvent event{.name = name,
                           .device = endpoint_.traced_name(),
                           .begin = detail::current_context().clock().now(),
                           .location = endpoint_.tables().sources.location(record.source),
                           .lane = lane,
                           .path = record.path.value != 0 ? record.path : group_layer_,
                           .op_count = static_cast<std::uint32_t>(op_count)};
  if (record.output_count > 0) {
    const Operand result = op.output(0);
    event.shape = result.shape;
    event.dtype = result.dtype;
    event.has_shape = true;
  }
  return event;
}

void Dispatch::trace_until_now(detail::TraceEvent event) noexcept {
  event.end = detail::current_context().clock().now();
  endpoint_.tables().trace().add(event);
}

void Dispatch::trace_copy(const OpView& op,
                          LaneId lane,
                          detail::TraceTrack track,
                          std::size_t size_bytes,
                          detail::TimePoint begin,
                          TimelinePoint point) {
  detail::Trace& trace = endpoint_.tables().trace();
  if (!trace.is_on() || begin == detail::TimePoint()) {
    return;
  }
  detail::TraceEvent event = event_of(op, endpoint_.tables().op_name(op.record()), 0, lane);
  event.end = event.begin;
  event.begin = begin;
  event.track = track;
  event.value = static_cast<std::int64_t>(size_bytes);
  if (op.record().output_count == 0) {
    const Operand read = op.input(0);
    event.shape = read.shape;
    event.dtype = read.dtype;
    event.has_shape = true;
  }
  if (point.is_done()) {
    trace.add(event);
  } else {
    in_flight_.trace(point, event);
  }
}

void Dispatch::record_launch(std::span<const Launch> launches, std::size_t op_count) noexcept {
  if (journal_ == nullptr || launches.empty()) {
    return;
  }
  try {
    journal_->record_launch();
    for (const Launch& launch : launches) {
      journal_->note(launch.call, op_count, endpoint_.tables());
    }
  } catch (...) {
    journal_.reset();  // no memory for the journal: the explanation is empty, and the ops continue
  }
}

void Dispatch::record_copy(const Launch& launch, const OpView& op) noexcept {
  if (journal_ == nullptr) [[likely]] {
    return;
  }
  try {
    journal_->record_launch();
    journal_->record_copy(launch.call, op, endpoint_.tables());
  } catch (...) {
    journal_.reset();
  }
}

void Dispatch::record_members(const FusedGroup& group) noexcept {
  try {
    journal_->record_members(group, endpoint_.tables());
  } catch (...) {
    journal_.reset();
  }
}

void Dispatch::record_view(const Operand& from, const Operand& view) noexcept {
  if (journal_ == nullptr) [[likely]] {
    return;
  }
  try {
    journal_->record_view(from, view);
  } catch (...) {
    journal_.reset();
  }
}

Explanation Dispatch::take_journal() {
  const std::unique_ptr<KernelJournal> journal = std::move(journal_);
  return journal ? journal->read(handles_, endpoint_.name()) : Explanation();
}

Status Dispatch::run_call(const char* what, Launch& launch, OnShortage rule) {
  is_compiling_ = false;
  may_have_begun_ = true;  // unknown if something throws
  bool is_pick_refused = false;
  const auto run = [&]() -> Status {
    Issue done = runs_inline_ ? backend_->submit({&launch, 1}, {}) : issue(launch);
    may_have_begun_ = done.may_have_begun;
    is_compiling_ = done.is_compiling;
    is_pick_refused = done.is_pick_refused;
    return std::move(done.status);
  };
  Status status = guarded(what, run);
  if (!status.has_value() && launch.pick != detail::kRulePick &&
      (is_pick_refused || scratch_->is_short())) [[unlikely]] {
    follow_rule(launch, is_pick_refused);
    status = guarded(what, run);
  }
  for (int rung = 0; rung < 2 && !status.has_value() && scratch_->is_short(); ++rung) {
    if (rung == 0 ? unstage(scratch_->shortage_outcome()) : handles_.evict_constants()) {
      static_cast<void>(scratch_->take_shortage());
      status = guarded(what, run);
    }
  }
  if (!status.has_value()) [[unlikely]] {
    return why_failed(std::move(status), rule);
  }
  if (scratch_->is_short()) [[unlikely]] {
    static_cast<void>(scratch_->take_shortage());  // the kernel succeeded without it
  }
  return status;
}

// A pick needs more than the call offers: the rule runs in its place. Only a refusal is remembered.
[[gnu::noinline]] void Dispatch::follow_rule(Launch& launch, bool is_pick_refused) {
  if (is_pick_refused) {
    picks_->refuse(launch.call, launch.pick);
  } else {
    static_cast<void>(scratch_->take_shortage());
  }
  launch.pick = detail::kRulePick;
}

// A kernel without scratch memory reports that through its ScratchMemory; its status shows only the
// failure.
[[gnu::noinline]] Status Dispatch::why_failed(Status status, OnShortage rule) {
  const auto wanted = scratch_->take_shortage();
  if (!wanted) {
    return status;
  }
  Status refused = shortage(wanted->size_bytes, wanted->outcome, rule);
  if (is_short(refused)) {
    return refused;
  }
  Error missing = refused.error();
  missing.text = "scratch memory of the kernel: " + missing.text;
  return missing;
}

// Only noted: the actor makes the lanes ready after the record, when nothing is half done.
[[gnu::noinline]] void Dispatch::record_woken(Slot& slot) {
  woken.insert(woken.end(), slot.waiting.begin(), slot.waiting.end());
  slot.waiting.clear();
  has_aftermath_ = true;
}

void Dispatch::fill(Slot& slot, const Operand& operand, LaneId home, HeldStorage&& storage) {
  const detail::Layout* const layout = &endpoint_.tables().shapes.layout(operand.shape);
  std::byte* const data = storage->block.data;
  handles_.make_live(slot, operand, home, storage.release(), data, layout);
  wake_waiting(slot);
}

void Dispatch::make_outputs(const OpView& op, LaneState& lane, std::span<HeldStorage> storages) {
  for (std::size_t i = 0; i < storages.size(); ++i) {
    const Operand operand = op.output(static_cast<int>(i));
    Slot& slot = handles_.slot(operand.slot);
    fill(slot, operand, lane.id, std::move(storages[i]));
    if (!runs_inline_) [[unlikely]] {
      slot.late = touched_.late;
    }
  }
}

// A poisoned slot is a tensor like any other: it has a home, readers are woken, a drop ends it.
void Dispatch::poison_outputs(const OpView& op, LaneState& lane, const ErrorRef& error) {
  for (int i = 0; i < op.record().output_count; ++i) {
    const Operand operand = op.output(i);
    Slot& slot = handles_.slot(operand.slot);
    if (is_uncreated(slot, operand)) {
      handles_.make_poisoned(slot, operand, lane.id, error);
    } else {
      handles_.poison(slot, error);  // an exception came after it was filled
    }
    wake_waiting(slot);
  }
}

void Dispatch::consume_inputs(const ResolvedOp& op) noexcept {
  for (int i = 0; i < op.input_count(); ++i) {
    consume(op.op().input(i), op.slot(i));
  }
}

void Dispatch::consume_inputs(const OpView& op) noexcept {
  for (int i = 0; i < op.record().input_count; ++i) {
    const Operand operand = op.input(i);
    consume(operand, handles_.slot(operand.slot));
  }
}

void Dispatch::consume(const Operand& operand, Slot& slot) noexcept {
  if (operand.use != Use::read_last) {
    return;
  }
  if (guests.empty() || !guests.has(operand.slot)) {
    handles_.clear(slot);
    endpoint_.slots.release(operand.slot);
  } else {
    consume_later(operand.slot);
  }
}

// A tensor with guests is not freed before they are done; the actor waits for them.
[[gnu::noinline]] void Dispatch::consume_later(SlotId slot) noexcept {
  late_drops.push_back({slot, guests.take(slot)});
  has_aftermath_ = true;
}

void Dispatch::add_guests(DeferredDrop entry) {
  guests.add(std::move(entry));
  late_drops.reserve(late_drops.size() + guests.size());  // consume_inputs() must not throw
}

void Dispatch::release_slot(SlotId id) noexcept {
  handles_.clear(handles_.slot(id));
  endpoint_.slots.release(id);
}

}  // namespace hearth
