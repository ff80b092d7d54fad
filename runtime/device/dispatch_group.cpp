// Update groups: all of an optimizer step, or nothing.
#include "dispatch.hpp"

#include <algorithm>
#include <utility>

#include <hearth/streams/op_attributes.hpp>

#include "guarded.hpp"

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

// How many records, from the first on, are of one expression. A strategy that looks at the blocks
// of each kernel gets them one by one, and so does an asynchronous device, whose launches each have
// points of their own to wait for.
std::size_t Dispatch::alike_from(std::span<const GroupRecord> group) const noexcept {
  const OpRecord& first = group[0].record;
  if (first.kind != OpKind::expression || handles_.is_checked() || !runs_inline_) {
    return 1;
  }
  const auto number_of = [](const OpRecord& record) {
    return OpView(record, nullptr).attributes<ExpressionAttributes>().expression;
  };
  const auto is_other = [&](const GroupRecord& entry) {
    return entry.record.kind != first.kind || number_of(entry.record) != number_of(first);
  };
  return static_cast<std::size_t>(std::ranges::find_if(group, is_other) - group.begin());
}

// Phases: views of all operands; calls that borrow them; the launch.
Issue Dispatch::submit_alike(std::span<const GroupRecord> group,
                             std::span<const std::vector<HeldStorage>> outputs,
                             LaneId lane) {
  batch_views_.clear();
  batch_.clear();
  std::size_t operands = 0;
  for (const GroupRecord& entry : group) {
    operands += static_cast<std::size_t>(entry.record.operand_count());
  }
  batch_views_.reserve(operands);  // the calls point into it
  for (std::size_t i = 0; i < group.size(); ++i) {
    const ResolvedOp op(handles_, OpView(group[i].record, group[i].blob.data()), lane);
    const KernelCall call = call_of(op, outputs[i]);
    const std::size_t first = batch_views_.size();
    batch_views_.insert(batch_views_.end(), call.inputs.begin(), call.inputs.end());
    batch_views_.insert(batch_views_.end(), call.outputs.begin(), call.outputs.end());
    const std::span<const TensorView> views = std::span(batch_views_).subspan(first);
    batch_.push_back({.call = {call.op,
                               views.first(call.inputs.size()),
                               views.subspan(call.inputs.size()),
                               call.expression}});
  }
  RuntimeTables& tables = endpoint_.tables();
  const TraceScope span(tables.trace, tables.op_name(group[0].record), endpoint_.name());
  statistics_.kernels += group.size();
  Issue outcome;
  const Status thrown = guarded("the kernel", [&]() -> Status {
    outcome = backend_->submit(batch_, {});
    return {};
  });
  if (!thrown.has_value()) {
    outcome.status = thrown;
  } else if (!outcome.status.has_value()) {
    outcome.status = why_failed(std::move(outcome.status), OnShortage::report);
  }
  return outcome;
}

Status Dispatch::run_group(std::span<const GroupRecord> group,
                           GroupMemory& memory,
                           LaneState& lane) {
  Status status(lost_);  // it may have been lost since the group was prepared
  const DeviceScratch::Reservation reserved(*scratch_,
                                            memory.scratch ? memory.scratch->block : Block{});
  for (std::size_t first = 0; first < group.size();) {
    const std::size_t count = status.has_value() ? alike_from(group.subspan(first)) : 1;
    std::size_t done = 0;
    if (status.has_value()) {
      const Issue outcome = submit_some(
          group.subspan(first, count), std::span(memory.outputs).subspan(first, count), lane.id);
      done = outcome.issued;
      if (!outcome.status.has_value()) {
        const GroupRecord& failed = group[first + done];
        status = error_of(outcome.status, OpView(failed.record, failed.blob.data()), lane.id);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      finish_record(
          group[first + i], memory.outputs[first + i], i < done ? Status() : status, lane);
    }
    first += count;
  }
  return status;
}

Issue Dispatch::submit_some(std::span<const GroupRecord> group,
                            std::span<const std::vector<HeldStorage>> outputs,
                            LaneId lane) {
  if (group.size() > 1) {
    return submit_alike(group, outputs, lane);
  }
  const ResolvedOp op(handles_, OpView(group[0].record, group[0].blob.data()), lane);
  Status status = submit(op, outputs[0], OnShortage::report);
  return {.issued = status.has_value() ? 1U : 0U, .status = std::move(status)};
}

// Where the record failed some of the group has written in place already: it cannot keep its old
// value, so it is poisoned.
void Dispatch::finish_record(const GroupRecord& entry,
                             std::vector<HeldStorage>& outputs,
                             const Status& status,
                             LaneState& lane) {
  const OpView view(entry.record, entry.blob.data());
  const ResolvedOp op(handles_, view, lane.id);
  if (status.has_value()) {
    make_outputs(view, lane, outputs);
  } else {
    outputs.clear();
    poison_outputs(view, lane, status.shared_error());
  }
  consume_inputs(op);
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
