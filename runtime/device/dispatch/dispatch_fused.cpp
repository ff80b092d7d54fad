// A group of ops as one kernel. The order is that of one op: memory, kernel, results, ends. Until
// the kernel has run, the ops can still run singly.
#include "dispatch.hpp"

#include <functional>
#include <string>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>

namespace hearth {
namespace {

/// The kernels on which a result depends through its inputs.
LateFailures late_failures_of(const FusedGroup& group, const FusedGroup::Member& member) {
  LateFailures late;
  const auto add = [&](const std::vector<FusedGroup::Input>& inputs, std::size_t first) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if ((member.needs >> (first + i) & 1U) != 0) {
        late = merged(late, inputs[i].slot->late);
      }
    }
  };
  add(group.inputs, 0);
  add(group.anchor_inputs, FusedGroup::kFirstAnchorNeed);
  return late;
}

}  // namespace

// Phases: memory; the kernel; results and ends. If the kernel has not begun, the ops run singly; if
// it has overwritten an input, they cannot.
Fused Dispatch::run_fused(const FusedGroup& group, const GroupKernels& kernels, LaneState& lane) {
  const std::uint64_t releases = handles_.release_count();
  ErrorRef error;
  bool has_begun = false;
  bool is_unsupported = false;
  is_compiling_ = false;
  try {
    if (get_memory(group)) {
      prepare_finish(group);
      record_layer(group);
      const Status status = submit_group(group, kernels, lane);
      group_layer_ = {};
      is_unsupported =
          !status.has_value() && !is_compiling_ && status.error().code == ErrorCode::unsupported;
      const bool has_hung =
          !status.has_value() && status.error().code == ErrorCode::deadline_exceeded;
      has_begun = status.has_value() || (may_have_begun_ && !is_short(status) &&
                                         (fused_in_place_ || !runs_inline_ || has_hung));
      if (has_begun && !status.has_value()) {
        error = error_of(status, group.members.front().op, lane.id);
      }
      const bool is_of_values =
          !status.has_value() && status.error().code == ErrorCode::out_of_range;
      if (!has_begun && !is_unsupported && !is_of_values && !is_short(status)) {
        record_unmade(group, kernels, status.error());
      }
      if (!status.has_value()) [[unlikely]] {
        refusal_ = status.shared_error();
      }
    } else {
      refusal_ = nullptr;
    }
  } catch (...) {
    fused_outputs_.clear();
    group_layer_ = {};
    handles_.forget_releases(releases);
    throw;
  }
  if (!has_begun) {
    fused_outputs_.clear();
    handles_.forget_releases(releases);  // as uncount_deferred()
    return is_unsupported ? Fused::unsupported : Fused::not_now;
  }
  if (journal_ != nullptr && !error) [[unlikely]] {
    record_members(group);
  }
  finish_fused(group, lane, error);
  if (error) {
    account(error, lane);
    return Fused::ran;
  }
  ++statistics_.fused_kernels;
  statistics_.fused_ops += group.op_count();
  statistics_.foreign_uses += group.foreign_uses;
  statistics_.foreign_uses += group.before != nullptr ? group.before->foreign_uses : 0;
  return Fused::ran;
}

// A kernel that is being compiled exists soon. One that failed fails again, so its ops run singly
// from now on; the log reports it once.
void Dispatch::record_unmade(const FusedGroup& group,
                             const GroupKernels& kernels,
                             const Error& why) {
  if (is_compiling_) {
    ++statistics_.early_groups;
    return;
  }
  const std::string name = kernel_name(call_of(group, kernels, {}), endpoint_.tables());
  std::uint64_t which = std::hash<std::string>()(name);
  for (const Expression* const each : {kernels.own, kernels.before}) {
    which = (which ^ (each != nullptr ? each->text_hash : 0)) * 0x9e3779b97f4a7c15U;
  }
  if (why.code != ErrorCode::device_lost && failed_kernels_.insert(which).second) {
    endpoint_.tables().log.warn(
        fmt::format("{}: the kernel of {} cannot be built; its ops run one by one: {}",
                    endpoint_.name(),
                    name,
                    why.text));
  }
}

void Dispatch::record_layer(const FusedGroup& group) noexcept {
  group_layer_ = {};
  if (!endpoint_.tables().trace().is_on()) [[likely]] {
    return;
  }
  for (const FusedGroup* const each : {static_cast<const FusedGroup*>(group.before), &group}) {
    if (each == nullptr) {
      continue;
    }
    for (const FusedGroup::Member& member : each->members) {
      if (group_layer_.value == 0) {
        group_layer_ = member.op.record().path;
      }
    }
  }
}

// A group that the backend refuses is gathered again and counts then.
bool Dispatch::admits_by(FusionLimit& limit, const FusedGroup& group, const GroupKernels& kernels) {
  const KernelCall& whole = call_of(group, kernels, {});
  if (!backend_->supports(whole).yes) {
    return true;
  }
  const FusionLimit::Admitted admitted = limit.admit();
  if (admitted == FusionLimit::Admitted::last) {
    RuntimeTables& tables = endpoint_.tables();
    const FusedGroup& first = group.before != nullptr ? *group.before : group;
    const SourceLoc call = tables.sources.location(first.members.front().op.record().source);
    tables.log.warn(
        fmt::format("the last fused group, number {} as limited: {} on {}, {} ops from {}:{} on",
                    limit.most(),
                    kernel_name(whole, tables),
                    endpoint_.name(),
                    group.op_count(),
                    call.file,
                    call.line));
  }
  return admitted != FusionLimit::Admitted::no;
}

// The group before has no launch of its own: the anchor's call contains its call.
const KernelCall& Dispatch::call_of(const FusedGroup& group,
                                    const GroupKernels& kernels,
                                    std::span<const HeldStorage> outputs) {
  const RuntimeTables& tables = endpoint_.tables();
  const KernelCall* const before =
      group.before == nullptr
          ? nullptr
          : &call_before_.make(*group.before, kernels.before, nullptr, {}, tables);
  return fused_call_.make(group, kernels.own, before, outputs, tables);
}

Status Dispatch::submit_call(const FusedGroup& group,
                             const GroupKernels& kernels,
                             LaneId lane,
                             bool is_deferrable) {
  is_compiling_ = false;
  Launch launch{.call = call_of(group, kernels, fused_outputs_), .is_deferrable = is_deferrable};
  if (group.has_anchor()) {
    if (const Support support = backend_->supports(launch.call); !support.yes) {
      may_have_begun_ = false;
      return Error{.code = ErrorCode::unsupported, .text = support.reason};
    }
  }
  if (!runs_inline_) [[unlikely]] {
    touch(group, lane);
  }
  return submit_launch(launch, group.op_count(), OnShortage::abort, lane);
}

void Dispatch::skip_unneeded(const FusedGroup& group, LaneState& lane) {
  prepare_finish(group);
  if (journal_ != nullptr) [[unlikely]] {
    journal_->record_unneeded(group.op_count());
  }
  finish_fused(group, lane, nullptr);
}

// Everything that needs host memory happens before the kernel: once the kernel has overwritten
// inputs, the ops could not run singly any more.
void Dispatch::prepare_finish(const FusedGroup& group) {
  std::size_t waiting = woken.size();
  fused_late_.clear();
  for (const FusedGroup::Member& member : group.members) {
    waiting += member.slot->waiting.size();
    if (!runs_inline_) [[unlikely]] {
      fused_late_.push_back(member.is_output() ? late_failures_of(group, member) : nullptr);
    }
  }
  woken.reserve(waiting);
}

void Dispatch::finish_fused(const FusedGroup& group,
                            LaneState& lane,
                            const ErrorRef& error) noexcept {
  if (group.before != nullptr) [[unlikely]] {
    pass_over_values(*group.before);
    consume_last(*group.before);
  }
  pass_over_values(group);
  std::size_t output = 0;
  std::size_t place = 0;
  for (const FusedGroup::Member& member : group.members) {
    const std::size_t op = place++;
    Slot& slot = *member.slot;
    if (member.is_recomputed || member.is_internal) {
      continue;
    }
    if (error) {
      handles_.make_poisoned(slot, member.operand, lane.id, error);
      wake_waiting(slot);
      continue;
    }
    fill(slot, member.operand, lane.id, std::move(fused_outputs_[output++]));
    if (!runs_inline_) {
      slot.late = std::move(fused_late_[op]);
    }
  }
  fused_outputs_.clear();
  consume_last(group);
  for (const SlotId slot : group.drops) {
    release_slot(slot);
  }
}

void Dispatch::pass_over_values(const FusedGroup& group) noexcept {
  for (const FusedGroup::Member& member : group.members) {
    if (member.is_internal) {
      HEARTH_ASSERT(member.slot->waiting.empty(),
                    "a stream waits for a tensor that no other stream uses");
      HandleTable::skip_unneeded(*member.slot, member.operand);
      endpoint_.slots.release(member.operand.slot);
    }
  }
}

void Dispatch::consume_last(const FusedGroup& group) noexcept {
  for (const std::vector<FusedGroup::Input>* inputs : {&group.anchor_inputs, &group.inputs}) {
    for (const FusedGroup::Input& input : *inputs) {
      if (input.is_last) {
        Operand last = input.operand;
        last.use = Use::read_last;
        consume(last, *input.slot);
      }
    }
  }
}

}  // namespace hearth
