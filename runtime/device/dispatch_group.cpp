// Update groups: all of an optimizer step, or nothing.
#include "dispatch.hpp"

namespace hearth {

Status Dispatch::short_or_named(const Status& status, const OpView& op, LaneId lane) const {
  return is_short(status) ? status : Status(with_provenance(status.error(), op, lane));
}

// Nothing of the group has run, so that what cannot run leaves everything as it was.
Result<std::int64_t> Dispatch::prepare_record(const OpView& view,
                                              LaneState& lane,
                                              OnShortage rule,
                                              std::vector<HeldStorage>& outputs) {
  const ResolvedOp op(handles_, view, lane.id);
  if (ErrorRef poison = first_poison(op)) {
    return poison;
  }
  for (int output = 0; output < view.record().output_count; ++output) {
    Result<HeldStorage> storage = storage_for(op, output, rule);
    if (!storage.has_value()) {
      return short_or_named(storage.status(), view, lane.id).shared_error();
    }
    outputs.push_back(std::move(storage).value());
  }
  const KernelCall call = call_of(op, outputs);
  if (const Support support = backend_->supports(call); !support.yes) {
    return with_provenance(
        Error{.code = ErrorCode::unsupported, .text = support.reason}, view, lane.id);
  }
  return backend_->scratch_bytes(call);
}

// One block of scratch serves all of the group's kernels, which run one after the other: it is as
// large as the neediest wants it, and that one is named if there is none.
// All memory before the first kernel, also that of parameters which the group updates in place:
// those hold a use of their own bytes.
Result<GroupMemory> Dispatch::memory_of_group(std::span<const GroupRecord> group,
                                              LaneState& lane,
                                              OnShortage rule) {
  GroupMemory memory;
  memory.outputs.resize(group.size());
  std::int64_t scratch_bytes = 0;
  std::size_t neediest = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const OpView view(group[i].record, group[i].blob.data());
    HEARTH_TRY(const std::int64_t bytes, prepare_record(view, lane, rule, memory.outputs[i]));
    if (bytes > scratch_bytes) {
      scratch_bytes = bytes;
      neediest = i;
    }
  }
  if (scratch_bytes > 0) {
    const OpView op(group[neediest].record, group[neediest].blob.data());
    Result<HeldStorage> scratch = allocate(scratch_bytes, PoolKind::scratch, {}, rule);
    if (!scratch.has_value()) {
      return short_or_named(scratch.status(), op, lane.id);
    }
    memory.scratch = std::move(scratch).value();
  }
  return memory;
}

Status Dispatch::run_group(std::span<const GroupRecord> group,
                           GroupMemory& memory,
                           LaneState& lane) {
  Status status(lost_);  // it may have been lost since the group was prepared
  const DeviceScratch::Reservation reserved(*scratch_,
                                            memory.scratch ? memory.scratch->block : Block{});
  for (std::size_t i = 0; i < group.size(); ++i) {
    const OpView view(group[i].record, group[i].blob.data());
    const ResolvedOp op(handles_, view, lane.id);
    std::vector<HeldStorage>& outputs = memory.outputs[i];
    if (status.has_value()) {
      Status ran = submit(op, outputs, OnShortage::report);
      if (!ran.has_value()) {
        status = error_of(ran, view, lane.id);
      }
    }
    // Some of the group has written in place already: what follows a failure cannot keep its old
    // value, so it is poisoned.
    if (status.has_value()) {
      make_outputs(view, lane, outputs);
    } else {
      outputs.clear();
      poison_outputs(view, lane, status.shared_error());
    }
    consume_inputs(op);
  }
  return status;
}

// The new tensors take over the old values: the owner of the parameters has only those left.
void Dispatch::abandon_group(std::span<const GroupRecord> group,
                             LaneState& lane,
                             const ErrorRef& error) {
  for (const GroupRecord& entry : group) {
    const OpView view(entry.record, entry.blob.data());
    const ResolvedOp op(handles_, view, lane.id);
    for (int output = 0; output < view.record().output_count; ++output) {
      keep_old_value(op, output, lane, error);
    }
    ++statistics_.poisoned_ops;
    consume_inputs(op);
  }
}

void Dispatch::keep_old_value(const ResolvedOp& op,
                              int output,
                              LaneState& lane,
                              const ErrorRef& error) {
  const Operand out = op.op().output(output);
  const Slot& old = op.slot(updated_input(output));
  Slot& slot = handles_.slot(out.slot);
  if (is_unborn(old, op.op().input(updated_input(output)))) {
    handles_.make_poisoned(slot, out, lane.id, error);  // there is no old value
  } else if (old.state == SlotState::live && old.layout->contiguous) {
    HandleTable::share(*old.storage);
    handles_.make_live(slot,
                       out,
                       lane.id,
                       old.storage,
                       old.data,
                       old.view_layout ? &endpoint_.tables().shapes.layout(out.shape) : old.layout);
  } else if (old.state == SlotState::live) {
    HandleTable::share(*old.storage);
    handles_.make_view(slot, out, lane.id, old.storage, old.data, *old.layout);
  } else {
    handles_.make_poisoned(slot, out, lane.id, old.error ? old.error : error);
  }
  wake_waiting(slot);
}

}  // namespace hearth
