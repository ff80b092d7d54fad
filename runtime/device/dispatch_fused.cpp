// A group of ops as one kernel: as the call of an op of kind `expression`, so that every backend
// that runs those runs groups, or as the call of its anchor with the rest beside. Order as for one
// op: memory, kernel, results, and what goes last. Until the kernel has run nothing has happened
// that singly run ops would notice.
#include "dispatch.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth {
namespace {

/// The kernels on which a result depends, through what it is made of.
LateFailures late_failures_of(const FusedGroup& group, const FusedGroup::Made& made) {
  LateFailures late;
  const auto add = [&](const std::vector<FusedGroup::Input>& inputs, std::size_t first) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if ((made.needs >> (first + i) & 1U) != 0) {
        late = merged(late, inputs[i].slot->late);
      }
    }
  };
  add(group.inputs, 0);
  add(group.anchor_inputs, FusedGroup::kFirstAnchorNeed);
  return late;
}

}  // namespace

// Phases: memory; the kernel; results and ends. What has not begun leaves its ops to run singly,
// which a kernel that has overwritten an input does not.
Fused Dispatch::run_fused(const FusedGroup& group, const Expression& kernel, LaneState& lane) {
  const std::uint64_t releases = handles_.release_count();
  ErrorRef error;
  bool has_begun = false;
  bool is_unsupported = false;
  try {
    if (get_memory(group)) {
      prepare_finish(group);
      note_layer(group);
      const Status status = submit_group(group, kernel, lane);
      group_layer_ = {};
      is_unsupported =
          !status.has_value() && !is_compiling_ && status.error().code == ErrorCode::unsupported;
      has_begun = status.has_value() ||
                  (may_have_begun_ && !is_short(status) && (fused_in_place_ || !runs_inline_));
      if (has_begun && !status.has_value()) {
        error = error_of(status, group.made.front().op, lane.id);
      }
      const bool is_of_values =
          !status.has_value() && status.error().code == ErrorCode::out_of_range;
      if (!has_begun && !is_unsupported && !is_of_values && !is_short(status)) {
        note_unmade(kernel, status.error());
      }
    }
  } catch (...) {
    fused_outputs_.clear();
    group_layer_ = {};
    handles_.forget_releases(releases);
    throw;
  }
  if (!has_begun) {
    fused_outputs_.clear();
    handles_.forget_releases(releases);  // as note_put_off()
    return is_unsupported ? Fused::unsupported : Fused::not_now;
  }
  finish_fused(group, lane, error);
  if (error) {
    account(error, lane);
    return Fused::ran;
  }
  ++statistics_.fused_kernels;
  statistics_.fused_ops += group.op_count();
  statistics_.foreign_uses += group.foreign_uses;
  return Fused::ran;
}

// A kernel that is compiled is there soon. One that failed fails again, and its ops run one by one
// from now on: the log says so once.
void Dispatch::note_unmade(const Expression& kernel, const Error& why) {
  if (is_compiling_) {
    ++statistics_.early_groups;
    return;
  }
  if (why.code != ErrorCode::device_lost && failed_kernels_.insert(kernel.text_hash).second) {
    endpoint_.tables().log.warn(
        fmt::format("{}: the kernel of {} cannot be made, and its ops run one by one: {}",
                    endpoint_.name(),
                    kernel.name,
                    why.text));
  }
}

void Dispatch::note_layer(const FusedGroup& group) noexcept {
  group_layer_ = {};
  if (!endpoint_.tables().trace().is_on()) [[likely]] {
    return;
  }
  for (const FusedGroup::Made& made : group.made) {
    if (group_layer_.value == 0) {
      group_layer_ = made.op.record().path;
    }
  }
}

bool Dispatch::admits_by(FusionLimit& limit, const FusedGroup& group, const Expression& kernel) {
  const FusionLimit::Admitted admitted = limit.admit();
  if (admitted == FusionLimit::Admitted::last) {
    RuntimeTables& tables = endpoint_.tables();
    const SourceLoc call = tables.sources.location(group.made.front().op.record().source);
    tables.log.warn(
        fmt::format("the last fused group, number {} as limited: {} on {}, {} ops from {}:{} on",
                    limit.most(),
                    kernel.name,
                    endpoint_.name(),
                    group.op_count(),
                    call.file,
                    call.line));
  }
  return admitted != FusionLimit::Admitted::no;
}

Status Dispatch::submit_fused(const FusedGroup& group,
                              const Expression& kernel,
                              LaneId lane,
                              bool may_come_later) {
  OpRecord record = group.made.front().op.record();  // the line that failures name
  record.kind = OpKind::expression;
  record.flags = 0;
  record.input_count = static_cast<std::uint16_t>(group.inputs.size());
  record.output_count = static_cast<std::uint16_t>(fused_outputs_.size());
  const std::size_t count = group.inputs.size() + fused_outputs_.size();
  if (views_.size() < count) {
    views_.resize(count);
  }
  std::vector<Operand>& operands = fused_operands_;
  operands.clear();
  for (const FusedGroup::Input& input : group.inputs) {
    views_[operands.size()] = {input.slot->data, input.slot->layout, input.slot->dtype};
    operands.push_back(input.operand);
  }
  for (const FusedGroup::Made& made : group.made) {
    if (made.is_output()) {
      views_[operands.size()] = {fused_outputs_[operands.size() - group.inputs.size()]->block.data,
                                 &endpoint_.tables().shapes.layout(made.operand.shape),
                                 made.operand.dtype};
      operands.push_back(made.operand);
    }
  }
  fused_blob_.clear();
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i < kInlineOperands) {
      record.operands[i] = operands[i];
    } else {
      const auto bytes = std::as_bytes(std::span(&operands[i], 1));
      fused_blob_.insert(fused_blob_.end(), bytes.begin(), bytes.end());
    }
  }
  write_parameters(group);
  const ExpressionAttributes attributes{
      .parameter_count = static_cast<std::uint32_t>(group.parameters),
      .flops = kernel.flops,
      .row_axes = static_cast<std::uint32_t>(group.row_axes)};
  static_assert(fits_immediate<ExpressionAttributes>);
  std::memcpy(record.immediate, &attributes, sizeof attributes);
  record.blob_size_bytes = static_cast<std::uint32_t>(fused_blob_.size());
  if (!runs_inline_) [[unlikely]] {
    touch(group, lane);
  }
  Launch launch{.call = {OpView(record, fused_blob_.data()),
                         std::span(views_).first(group.inputs.size()),
                         std::span(views_).subspan(group.inputs.size(), fused_outputs_.size()),
                         &kernel},
                .may_come_later = may_come_later};
  return submit_launch(launch, group.op_count(), OnShortage::give_up, lane);
}

void Dispatch::write_parameters(const FusedGroup& group) {
  for (const FusedGroup::Made& made : group.made) {
    if (made.role == FusedGroup::Role::computes) {
      const OpView& op = made.op;
      write_group_parameters(
          op, op.record().input_count > 0 ? op.input(0).dtype : made.operand.dtype, fused_blob_);
    }
  }
}

// The anchor's own call; what follows it is said beside. The parameters come as an op of kind
// `expression` would have them.
Status Dispatch::submit_anchored(const FusedGroup& group,
                                 const Expression& kernel,
                                 LaneId lane,
                                 bool may_come_later) {
  is_compiling_ = false;
  const std::size_t own = group.anchor_inputs.size();
  const std::size_t beside = group.inputs.size();
  if (views_.size() < own + beside + fused_outputs_.size()) {
    views_.resize(own + beside + fused_outputs_.size());
  }
  std::size_t next = 0;
  for (const std::vector<FusedGroup::Input>* inputs : {&group.anchor_inputs, &group.inputs}) {
    for (const FusedGroup::Input& input : *inputs) {
      views_[next++] = {.data = input.slot->data,
                        .layout = input.slot->layout,
                        .dtype = input.slot->dtype,
                        .constant = input.slot->storage->constant.get()};
    }
  }
  std::size_t output = 0;
  fused_blob_.clear();
  fused_operands_.clear();
  for (const FusedGroup::Input& input : group.inputs) {
    fused_operands_.push_back(input.operand);
  }
  for (const FusedGroup::Made& made : group.made) {
    if (made.is_output()) {
      fused_operands_.push_back(made.operand);
      views_[next++] = {fused_outputs_[output++]->block.data,
                        &endpoint_.tables().shapes.layout(group.space),
                        made.operand.dtype};
    }
  }
  write_parameters(group);
  fused_parameters_.assign(kernel.kernel.parameters.size(), {});
  read_parameters(kernel.kernel.parameters, fused_blob_, fused_parameters_);
  const std::span<const TensorView> views(views_);
  const Epilogue epilogue{
      .expression = &kernel,
      .result = &endpoint_.tables().shapes.layout(group.made.front().operand.shape),
      .inputs = views.subspan(own, beside),
      .parameters = fused_parameters_,
      .operands = fused_operands_};
  Launch launch{.call = {.op = group.made.front().op,
                         .inputs = views.first(own),
                         .outputs = views.subspan(own + beside, output),
                         .epilogue = &epilogue},
                .may_come_later = may_come_later};
  if (const Support support = backend_->supports(launch.call); !support.yes) {
    may_have_begun_ = false;
    return Error{.code = ErrorCode::unsupported, .text = support.reason};
  }
  if (!runs_inline_) [[unlikely]] {
    touch(group, lane);
  }
  return submit_launch(launch, group.op_count(), OnShortage::give_up, lane);
}

void Dispatch::pass_over(const FusedGroup& group, LaneState& lane) {
  prepare_finish(group);
  finish_fused(group, lane, nullptr);
}

// What needs host memory comes before the kernel: it may write over inputs, and its ops could not
// run singly any more.
void Dispatch::prepare_finish(const FusedGroup& group) {
  std::size_t waiting = woken.size();
  fused_late_.clear();
  for (const FusedGroup::Made& made : group.made) {
    waiting += made.slot->waiting.size();
    if (!runs_inline_) [[unlikely]] {
      fused_late_.push_back(made.is_output() ? late_failures_of(group, made) : nullptr);
    }
  }
  woken.reserve(waiting);
}

void Dispatch::finish_fused(const FusedGroup& group,
                            LaneState& lane,
                            const ErrorRef& error) noexcept {
  std::size_t output = 0;
  std::size_t place = 0;
  for (const FusedGroup::Made& made : group.made) {
    const std::size_t op = place++;
    Slot& slot = *made.slot;
    if (made.is_left) {
      continue;
    }
    if (made.is_over) {
      HEARTH_ASSERT(slot.waiting.empty(), "a lane waits for a tensor that nobody else uses");
      HandleTable::pass_over(slot, made.operand);
      endpoint_.slots.give_back(made.operand.slot);
      continue;
    }
    if (error) {
      handles_.make_poisoned(slot, made.operand, lane.id, error);
      wake_waiting(slot);
      continue;
    }
    fill(slot, made.operand, lane.id, std::move(fused_outputs_[output++]));
    if (!runs_inline_) {
      slot.late = std::move(fused_late_[op]);
    }
  }
  fused_outputs_.clear();
  for (const std::vector<FusedGroup::Input>* inputs : {&group.anchor_inputs, &group.inputs}) {
    for (const FusedGroup::Input& input : *inputs) {
      if (input.is_last) {
        Operand last = input.operand;
        last.use = Use::read_last;
        consume(last, *input.slot);
      }
    }
  }
  for (const SlotId slot : group.drops) {
    release_slot(slot);
  }
}

}  // namespace hearth
