// Additions for asynchronous devices: the dependencies of each launch and copy, the storages that
// it accesses, and the failures that its results may carry.
// The device orders ops by their bytes itself (backend.hpp). Copies run beside ops, so an op waits
// for the copies of bytes that it reads or overwrites. Blocks from memory have no pending copies
// (memory_strategy.hpp).
#include "dispatch.hpp"

#include "runtime/device/memory/guarded.hpp"

#include <algorithm>

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/op_facts.hpp>

namespace hearth {
namespace {

bool may_fail_late(const KernelCall& call) noexcept {
  if (call.expression != nullptr) {
    return call.expression->may_fail;
  }
  const auto can = [&](const TensorView& view) { return may_fail(call.op.kind(), view.dtype); };
  return std::ranges::any_of(call.inputs, can) || std::ranges::any_of(call.outputs, can);
}

}  // namespace

void Dispatch::touch(const ResolvedOp& op, std::span<const HeldStorage> written) {
  touched_.reads.clear();
  touched_.writes.clear();
  touched_.late.reset();
  for (int i = 0; i < op.input_count(); ++i) {
    const Slot& slot = op.slot(i);
    touched_.reads.push_back(slot.storage);
    touched_.late = merged(touched_.late, slot.late);
  }
  for (const HeldStorage& storage : written) {
    touched_.writes.push_back(storage.get());
  }
  touched_.record = op.op().record();
  touched_.lane = op.lane();
}

// finish_fused() sets the failures on which the results depend, one by one.
void Dispatch::touch(const FusedGroup& group, LaneId lane) {
  touched_.reads.clear();
  touched_.writes.clear();
  touched_.late.reset();
  for (const std::vector<FusedGroup::Input>* inputs : {&group.anchor_inputs, &group.inputs}) {
    for (const FusedGroup::Input& input : *inputs) {
      touched_.reads.push_back(input.slot->storage);
    }
  }
  for (const HeldStorage& storage : fused_outputs_) {
    touched_.writes.push_back(storage.get());
  }
  touched_.record = group.members.front().op.record();
  touched_.lane = lane;
}

std::span<const TimelinePoint> Dispatch::points_before() {
  LastUse before;
  for (const Storage* storage : touched_.reads) {
    before.add(storage->written.stream, storage->written.value);
  }
  for (const Storage* storage : touched_.writes) {
    for (const std::uint8_t stream : {kUploadStream, kDownloadStream}) {
      before.add(stream, storage->last_use.values[stream]);
    }
  }
  points_.clear();
  for (const std::uint8_t stream : {kUploadStream, kDownloadStream}) {
    const TimelinePoint point{before.values[stream], stream};
    if (!in_flight_.has_ended(point)) {
      points_.push_back(point);
    }
  }
  return points_;
}

void Dispatch::record_launched(TimelinePoint point, const Launch& launch) {
  for (Storage* storage : touched_.reads) {
    storage->last_use.add(point.stream, point.value);
  }
  for (Storage* storage : touched_.writes) {
    storage->last_use.add(point.stream, point.value);
    storage->written = point;
  }
  in_flight_.add_op(point, touched_.record, touched_.lane);
  if (traced_) [[unlikely]] {
    in_flight_.trace(point, *traced_, launch.timed_as);
  }
  if (launch.cell != 0) {
    auto failure = std::make_shared<LateFailure>(LateFailure{.cell = launch.cell, .point = point});
    in_flight_.add(point, KernelEnd{failure, {touched_.record, touched_.lane}, touched_.late});
    touched_.late = merged(touched_.late,
                           std::make_shared<const std::vector<std::shared_ptr<const LateFailure>>>(
                               1, std::move(failure)));
  }
}

void Dispatch::record_copy(Storage& storage, TimelinePoint point, bool writes) noexcept {
  storage.last_use.add(point.stream, point.value);
  if (writes) {
    storage.written = point;
  }
}

// If the kernel is refused, no launch takes the cell, and it is free at once. Updates run only in
// groups; run_group() has set their guards.
Issue Dispatch::issue(Launch& launch) {
  static constexpr std::array<std::int8_t, kMostOutputs> kReplaced = [] {
    std::array<std::int8_t, kMostOutputs> inputs{};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<std::int8_t>(updated_input(static_cast<int>(i)));
    }
    return inputs;
  }();
  const KernelCall& call = launch.call;
  if (may_fail_late(call)) {
    launch.cell = in_flight_.cells.take(in_flight_.ended(kOpStream));
  }
  if (is_update(call.op.record())) {
    launch.guards = guards_;
    launch.keeps = std::span(kReplaced).first(call.outputs.size());
  }
  Issue issue = backend_->submit({&launch, 1}, points_before());
  if (issue.status.has_value()) {
    record_launched(issue.point, launch);
  } else if (launch.cell != 0 && issue.may_have_begun) {
    // A part of the launch runs and may still write to the cell.
    in_flight_.cells.release(launch.cell, in_flight_.issued_ops() + 1);
  } else if (launch.cell != 0) {
    in_flight_.cells.release_unused(launch.cell);
  }
  return issue;
}

void Dispatch::inherit_from_old(const ResolvedOp& op) {
  for (int i = 0; !runs_inline_ && i < op.op().record().output_count; ++i) {
    handles_.slot(op.op().output(i).slot).late = op.slot(updated_input(i)).late;
  }
}

Status Dispatch::check_surely_runs(const KernelCall& call) const {
  if (runs_inline_ || !may_fail_late(call)) {
    return {};
  }
  return Error{.code = ErrorCode::unsupported,
               .text =
                   "an update group on an asynchronous device cannot have an op that may fail "
                   "while it runs: the other ops would have run before the failure is known"};
}

void Dispatch::flush() noexcept {
  static_cast<void>(guarded("the start of a batch", [this] { return backend_->flush(); }));
}

Status Dispatch::inline_hang() {
  if (!runs_inline_ || lost_) {
    return {};
  }
  const Status ended = guarded("the wait for the device", [this] {
    return backend_->wait({}, Deadline::in(std::chrono::nanoseconds::zero()));
  });
  return !ended.has_value() && ended.error().code == ErrorCode::deadline_exceeded ? ended
                                                                                  : Status();
}

Status Dispatch::wait_for_ops() {
  const TimelinePoint newest{in_flight_.issued_ops(), kOpStream};
  if (in_flight_.has_ended(newest)) {
    return {};
  }
  HEARTH_TRY_STATUS(backend_->flush());
  return backend_->wait({&newest, 1}, Deadline::in(endpoint_.tables().wait_limit));
}

}  // namespace hearth
