// Update groups: all of an optimizer step, or nothing.
#include "dispatch.hpp"

namespace hearth {

Result<GroupMemory> Dispatch::memory_of_group(std::span<const GroupRecord> group, LaneState& lane) {
  GroupMemory memory(group.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    const OpView op(group[i].record, group[i].blob.data());
    if (ErrorRef poison = first_poison(op)) {
      return poison;
    }
    for (int output = 0; output < op.record().output_count; ++output) {
      Result<HeldStorage> storage = storage_for(op, output);
      if (!storage.has_value()) {
        return with_provenance(storage.error(), op, lane.id);
      }
      memory[i].push_back(std::move(storage).value());
    }
  }
  return memory;
}

Status Dispatch::run_group(std::span<const GroupRecord> group,
                           GroupMemory& memory,
                           LaneState& lane) {
  Status status(lost_);  // it may have been lost since the group was prepared
  for (std::size_t i = 0; i < group.size(); ++i) {
    const OpView op(group[i].record, group[i].blob.data());
    if (status.has_value()) {
      Status ran = submit(op, memory[i]);
      if (!ran.has_value()) {
        status = blame(ran, op, lane.id);
      }
    }
    // Some of the group has written in place already: what follows a failure cannot keep its old value, so it is poisoned.
    if (status.has_value()) {
      make_outputs(op, lane, memory[i]);
    } else {
      memory[i].clear();
      poison_outputs(op, lane, status.shared_error());
    }
    consume_inputs(op);
  }
  return status;
}

void Dispatch::abandon_group(std::span<const GroupRecord> group,
                             LaneState& lane,
                             const ErrorRef& error) {
  for (const GroupRecord& entry : group) {
    const OpView op(entry.record, entry.blob.data());
    for (int output = 0; output < op.record().output_count; ++output) {
      const Operand out = op.output(output);
      const Operand in = op.input(updated_input(output));
      const Slot& old = handles_.slot(in.slot);
      Slot& slot = handles_.slot(out.slot);
      if (is_unborn(old, in)) {
        handles_.make_poisoned(slot, out, lane.id, error);  // there is no old value
      } else if (old.state == SlotState::live && old.layout->contiguous) {
        HandleTable::share(*old.storage);
        handles_.make_live(
            slot,
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
    ++statistics_.poisoned_ops;
    consume_inputs(op);
  }
}

}  // namespace hearth
