// Update groups: all of an optimizer step, or nothing.
#include "dispatch.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <hearth/streams/op_attributes.hpp>

#include "runtime/device/memory/guarded.hpp"

namespace hearth {

Status Dispatch::short_or_named(const Status& status, const OpView& op, LaneId lane) const {
  return is_short(status) ? status : Status(with_provenance(status.error(), op, lane));
}

// Calls of one expression on operands of equal forms differ only in their bytes. A model has few
// forms; beyond the capacity, forms are queried again.
class Dispatch::QueriedCalls {
 public:
  /// Scratch bytes of an equal call, if the backend was queried about one.
  [[nodiscard]] std::optional<std::int64_t> find(const KernelCall& call) const noexcept {
    for (const Query& each : std::span(queries_).first(std::min(count_, queries_.size()))) {
      if (is_like(each, call)) {
        return each.scratch_bytes;
      }
    }
    return std::nullopt;
  }
  void add(const KernelCall& call, std::int64_t scratch_bytes) noexcept {
    queries_[count_++ % queries_.size()] = {
        call.expression, call.inputs, call.outputs, scratch_bytes};
  }

 private:
  struct Query {
    const Expression* expression = nullptr;
    std::span<const TensorView> inputs;
    std::span<const TensorView> outputs;
    std::int64_t scratch_bytes = 0;
  };

  [[nodiscard]] static bool is_like(const Query& asked, const KernelCall& call) noexcept {
    const auto same_form = [](const TensorView& x, const TensorView& y) {
      return x.layout == y.layout && x.dtype == y.dtype;
    };
    return call.expression != nullptr && call.expression == asked.expression &&
           std::ranges::equal(call.outputs, asked.outputs, same_form) &&
           std::ranges::equal(call.inputs, asked.inputs, same_form);
  }

  std::array<Query, 8> queries_;
  std::size_t count_ = 0;
};

// A result takes over bytes only at their last use, so only operands with a later use are marked.
bool Dispatch::record_reads(const ResolvedOp& op,
                            std::span<const HeldStorage> results) const noexcept {
  const bool is_overwriter = std::ranges::any_of(results, [this](const HeldStorage& storage) {
    return storage->reading_group == group_number_;
  });
  for (int i = 0; i < op.input_count(); ++i) {
    if (op.op().input(i).use != Use::read_last) {
      op.slot(i).storage->reading_group = group_number_;
    }
  }
  return is_overwriter;
}

// Nothing of the group has run yet, so a failure changes nothing.
Result<Dispatch::PreparedRecord> Dispatch::prepare_record(const OpView& view,
                                                          LaneState& lane,
                                                          OnShortage rule,
                                                          std::vector<HeldStorage>& outputs,
                                                          std::span<TensorView> views,
                                                          QueriedCalls& asked) {
  const ResolvedOp op(handles_, view, lane.id);
  if (ErrorRef poison = first_poison(op)) {
    return poison;
  }
  const std::size_t before = outputs.size();
  for (int output = 0; output < view.record().output_count; ++output) {
    Result<HeldStorage> storage = storage_for(op, output, rule);
    if (!storage.has_value()) {
      return short_or_named(storage.status(), view, lane.id).shared_error();
    }
    outputs.push_back(std::move(storage).value());
  }
  const auto results = std::span(outputs).subspan(before);
  const bool is_overwriter = record_reads(op, results);
  const KernelCall call = call_of(op, results, views);
  if (const std::optional<std::int64_t> known = asked.find(call)) {
    return PreparedRecord{*known, is_overwriter};
  }
  if (const Support support = backend_->supports(call); !support.yes) {
    return with_provenance(
        Error{.code = ErrorCode::unsupported, .text = support.reason}, view, lane.id);
  }
  if (const Status sure = check_surely_runs(call); !sure.has_value()) {
    return with_provenance(sure.error(), view, lane.id);
  }
  const Status ready = guarded("the preparation of the kernel", [&] {
    const DeviceEndpoint::CompileScope compiles(endpoint_);
    return kernels_->prepare(call);
  });
  if (!ready.has_value()) {
    return with_provenance(ready.error(), view, lane.id);
  }
  const std::int64_t scratch_bytes = kernels_->scratch_bytes(call);
  asked.add(call, scratch_bytes);
  return PreparedRecord{scratch_bytes, is_overwriter};
}

// Allocates all memory before the first kernel, also for parameters that the group updates in
// place: those hold a use of their own bytes.
// The group's kernels run one after the other and share one block of scratch. It has the size of
// the largest request, and a shortage names that op.
Result<GroupMemory> Dispatch::memory_of_group(std::span<const GroupRecord> group,
                                              LaneState& lane,
                                              OnShortage rule) {
  GroupMemory memory;
  std::size_t operands = 0;
  std::size_t outputs = 0;
  for (const GroupRecord& entry : group) {
    operands += static_cast<std::size_t>(entry.record.operand_count());
    outputs += entry.record.output_count;
  }
  memory.views.resize(operands);
  memory.outputs.reserve(outputs);
  QueriedCalls asked;
  ++group_number_;
  std::int64_t scratch_bytes = 0;
  std::size_t neediest = 0;
  std::size_t first = 0;  // index of the current record's first view
  for (std::size_t i = 0; i < group.size(); ++i) {
    const OpView view(group[i].record, group[i].blob.data());
    const auto count = static_cast<std::size_t>(view.record().operand_count());
    HEARTH_TRY(const PreparedRecord prepared,
               prepare_record(view,
                              lane,
                              rule,
                              memory.outputs,
                              std::span(memory.views).subspan(first, count),
                              asked));
    first += count;
    if (prepared.is_overwriter) [[unlikely]] {
      memory.overwriters.push_back(i);
    }
    if (prepared.scratch_bytes > scratch_bytes) {
      scratch_bytes = prepared.scratch_bytes;
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

// Number of records, from the first, with the same expression. A checking strategy gets records one
// by one, and so does an asynchronous device, whose launches have different points to wait for.
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

Issue Dispatch::submit_alike(std::span<const GroupRecord> group,
                             std::span<const TensorView> views,
                             LaneId lane) {
  batch_.clear();
  for (const GroupRecord& entry : group) {
    const OpView op(entry.record, entry.blob.data());
    const std::size_t inputs = entry.record.input_count;
    const std::size_t outputs = entry.record.output_count;
    batch_.push_back(
        {.call = {op, views.first(inputs), views.subspan(inputs, outputs), expression_of(op)}});
    views = views.subspan(inputs + outputs);
  }
  const detail::TimePoint begin = traced_now();
  Issue outcome;
  const Status thrown = guarded("the kernel", [&]() -> Status {
    outcome = backend_->submit(batch_, {});
    return {};
  });
  statistics_.kernels += outcome.issued;
  trace_alike(std::span(batch_).first(outcome.issued), lane, begin);
  record_launch(std::span(batch_).first(outcome.issued), 1);
  if (!thrown.has_value()) {
    outcome.status = thrown;
    outcome.may_have_begun = true;
  } else if (!outcome.status.has_value()) {
    outcome.status = why_failed(std::move(outcome.status), OnShortage::report);
  }
  return outcome;
}

// One call runs all of them, so their individual times are unknown: the time is divided by the
// bytes of their results.
void Dispatch::trace_alike(std::span<const Launch> launches, LaneId lane, detail::TimePoint begin) {
  detail::Trace& trace = endpoint_.tables().trace();
  if (!trace.is_on() || begin == detail::TimePoint() || launches.empty()) {
    return;
  }
  const auto bytes_of = [](const Launch& launch) {
    const TensorView& view = launch.call.outputs.front();
    return static_cast<double>(view.layout->shape.element_count() * size_bytes(view.dtype) + 64);
  };
  double all = 0;
  for (const Launch& launch : launches) {
    all += bytes_of(launch);
  }
  const detail::TimePoint end = detail::current_context().clock().now();
  double done = 0;
  detail::TimePoint from = begin;
  for (const Launch& launch : launches) {
    const OpView& op = launch.call.op;
    detail::TraceEvent event = event_of(op, endpoint_.tables().op_name(op.record()), 1, lane);
    done += bytes_of(launch);
    event.begin = from;
    event.end =
        begin + std::chrono::duration_cast<std::chrono::nanoseconds>((end - begin) * (done / all));
    event.is_shared_out = launches.size() > 1;
    from = event.end;
    trace.add(event);
  }
}

Issue Dispatch::submit_alone(const GroupRecord& entry,
                             std::span<const HeldStorage> outputs,
                             LaneId lane) {
  const ResolvedOp op(handles_, OpView(entry.record, entry.blob.data()), lane);
  Status status = submit(op, outputs, OnShortage::report);
  return {.issued = status.has_value() ? 1U : 0U,
          .status = std::move(status),
          .may_have_begun = may_have_begun_};
}

// Submits records that are alike as one batch, up to one that overwrites bytes which another of
// them reads; submits the rest one by one.
Issue Dispatch::issue_group(std::span<const GroupRecord> group,
                            const GroupMemory& memory,
                            LaneId lane) {
  const DeviceScratch::Reservation reserved(*scratch_,
                                            memory.scratch ? memory.scratch->block : Block{});
  std::span<const TensorView> views(memory.views);
  std::span<const HeldStorage> outputs(memory.outputs);
  Issue issue;
  auto overwriter = memory.overwriters.cbegin();
  while (issue.issued < group.size() && issue.status.has_value()) {
    const std::size_t first = issue.issued;
    overwriter = std::upper_bound(overwriter, memory.overwriters.cend(), first);
    const std::size_t end = overwriter == memory.overwriters.cend() ? group.size() : *overwriter;
    const auto batch = group.subspan(first, alike_from(group.subspan(first, end - first)));
    Issue part = batch.size() > 1
                     ? submit_alike(batch, views, lane)
                     : submit_alone(batch[0], outputs.first(batch[0].record.output_count), lane);
    issue.issued += part.issued;
    issue.status = std::move(part.status);
    issue.may_have_begun = part.may_have_begun;
    for (const GroupRecord& entry : batch) {
      outputs = outputs.subspan(entry.record.output_count);
      views = views.subspan(static_cast<std::size_t>(entry.record.operand_count()));
    }
  }
  return issue;
}

// If a record fails after the group was prepared, earlier records have written in place, unless the
// backend refused the first one. The replaced values are lost, so all results are poisoned: none
// belongs to a step that did not happen.
Status Dispatch::run_group(std::span<const GroupRecord> group,
                           GroupMemory& memory,
                           const LateFailures& guards,
                           LaneState& lane) {
  bool has_begun = true;
  Status status(lost_);  // the device may have been lost since the group was prepared
  if (status.has_value()) {
    status = issue_guarded(group, memory, guards, lane, has_begun);
  }
  if (!has_begun && !lost_) {
    memory.outputs.clear();
    abandon_group(group, lane, status.shared_error());
    return status;
  }
  std::span<HeldStorage> outputs(memory.outputs);
  for (const GroupRecord& entry : group) {
    const auto results = outputs.first(entry.record.output_count);
    outputs = outputs.subspan(results.size());
    try {
      finish_record(entry, results, status, lane);
    } catch (...) {
      status = thrown_by(OpView(entry.record, entry.blob.data()), lane.id);
      finish_record(entry, results, status, lane);
    }
  }
  return status;
}

// An exception here is our own bug or a shortage of host memory: the group ends all the same.
Status Dispatch::issue_guarded(std::span<const GroupRecord> group,
                               const GroupMemory& memory,
                               const LateFailures& guards,
                               LaneState& lane,
                               bool& has_begun) {
  try {
    guards_ = cells_of(guards);
    const Issue issue = issue_group(group, memory, lane.id);
    has_begun = issue.status.has_value() || issue.issued > 0 || issue.may_have_begun;
    if (issue.status.has_value()) {
      return {};
    }
    const GroupRecord& failed = group[issue.issued];
    return error_of(issue.status, OpView(failed.record, failed.blob.data()), lane.id);
  } catch (...) {
    return thrown_by(OpView(group[0].record, group[0].blob.data()), lane.id);
  }
}

void Dispatch::finish_record(const GroupRecord& entry,
                             std::span<HeldStorage> outputs,
                             const Status& status,
                             LaneState& lane) {
  const OpView view(entry.record, entry.blob.data());
  if (status.has_value()) {
    make_outputs(view, lane, outputs);
    if (!runs_inline_) [[unlikely]] {
      inherit_from_old(ResolvedOp(handles_, view, lane.id));
    }
  } else {
    for (HeldStorage& storage : outputs) {
      storage.reset();
    }
    ++statistics_.poisoned_ops;
    poison_outputs(view, lane, status.shared_error());
  }
  consume_inputs(view);
}

// The new tensors take over the old values: the owner of the parameters holds only the new ones.
void Dispatch::abandon_group(std::span<const GroupRecord> group,
                             LaneState& lane,
                             const ErrorRef& error) {
  for (const GroupRecord& entry : group) {
    abandon_update(OpView(entry.record, entry.blob.data()), lane, error);
  }
}

void Dispatch::abandon_update(const OpView& view, LaneState& lane, const ErrorRef& error) {
  const ResolvedOp op(handles_, view, lane.id);
  for (int output = 0; output < view.record().output_count; ++output) {
    keep_old_value(op, output, lane, error);
  }
  ++statistics_.poisoned_ops;
  consume_inputs(op);
}

void Dispatch::keep_old_value(const ResolvedOp& op,
                              int output,
                              LaneState& lane,
                              const ErrorRef& error) {
  const Operand out = op.op().output(output);
  const Slot& old = op.slot(updated_input(output));
  Slot& slot = handles_.slot(out.slot);
  if (is_uncreated(old, op.op().input(updated_input(output)))) {
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
  if (slot.state == SlotState::live) {
    slot.late = old.late;
  }
  wake_waiting(slot);
}

}  // namespace hearth
