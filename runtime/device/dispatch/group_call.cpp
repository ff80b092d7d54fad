#include "group_call.hpp"

#include <cstring>

namespace hearth {

const KernelCall& GroupCall::make(const FusedGroup& group,
                                  const Expression* kernel,
                                  const KernelCall* before,
                                  std::span<const HeldStorage> outputs,
                                  const RuntimeTables& tables) {
  views_.clear();
  operands_.clear();
  blob_.clear();
  KernelCall& call =
      call_.emplace(group.has_anchor() ? as_anchor(group, kernel, outputs, tables)
                                       : as_expression(group, *kernel, outputs, tables));
  if (before != nullptr) {
    prologue_ = {.call = before, .input = group.before_input};
    call.prologue = &prologue_;
  }
  return call;
}

KernelCall GroupCall::as_expression(const FusedGroup& group,
                                    const Expression& kernel,
                                    std::span<const HeldStorage> outputs,
                                    const RuntimeTables& tables) {
  add_inputs(group.inputs);
  const std::size_t inputs = views_.size();
  add_outputs(group, nullptr, outputs, tables);
  record_ = group.members.front().op.record();  // failures name this record's line
  record_.kind = OpKind::expression;
  record_.flags = 0;
  record_.input_count = static_cast<std::uint16_t>(inputs);
  record_.output_count = static_cast<std::uint16_t>(views_.size() - inputs);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (i < kInlineOperands) {
      record_.operands[i] = operands_[i];
    } else {
      const auto bytes = std::as_bytes(std::span(&operands_[i], 1));
      blob_.insert(blob_.end(), bytes.begin(), bytes.end());
    }
  }
  write_parameters(group);
  const ExpressionAttributes attributes{
      .parameter_count = static_cast<std::uint32_t>(group.parameters),
      .flops = kernel.flops,
      .row_axes = static_cast<std::uint32_t>(group.row_axes)};
  static_assert(fits_immediate<ExpressionAttributes>);
  std::memcpy(record_.immediate, &attributes, sizeof attributes);
  record_.blob_size_bytes = static_cast<std::uint32_t>(blob_.size());
  return {.op = OpView(record_, blob_.data()),
          .inputs = std::span(views_).first(inputs),
          .outputs = std::span(views_).subspan(inputs),
          .expression = &kernel};
}

// The anchor's own call; the epilogue and its operands stand beside it. The scalars have the layout
// of an op of kind `expression`.
KernelCall GroupCall::as_anchor(const FusedGroup& group,
                                const Expression* kernel,
                                std::span<const HeldStorage> outputs,
                                const RuntimeTables& tables) {
  add_inputs(group.anchor_inputs);
  const std::size_t own = views_.size();
  if (group.before != nullptr) {
    const auto made_before = static_cast<std::size_t>(group.before_input);
    const Operand& operand = operands_[made_before];
    views_[made_before] = {
        .data = nullptr, .layout = &tables.shapes.layout(operand.shape), .dtype = operand.dtype};
  }
  operands_.clear();  // the record names them
  add_inputs(group.inputs);
  const std::size_t beside = views_.size() - own;
  add_outputs(
      group, kernel == nullptr ? nullptr : &tables.shapes.layout(group.space), outputs, tables);
  const std::span<const TensorView> views(views_);
  KernelCall call{.op = group.members.front().op,
                  .inputs = views.first(own),
                  .outputs = views.subspan(own + beside)};
  if (kernel == nullptr) {
    return call;
  }
  write_parameters(group);
  parameters_.assign(kernel->kernel.parameters.size(), {});
  read_parameters(kernel->kernel.parameters, blob_, parameters_);
  epilogue_ = {.expression = kernel,
               .result = &tables.shapes.layout(group.members.front().operand.shape),
               .inputs = views.subspan(own, beside),
               .parameters = parameters_,
               .operands = operands_};
  call.epilogue = &epilogue_;
  return call;
}

void GroupCall::add_inputs(const std::vector<FusedGroup::Input>& inputs) {
  for (const FusedGroup::Input& input : inputs) {
    const Slot& slot = *input.slot;
    views_.push_back(
        {.data = slot.data,
         .layout = slot.layout,
         .dtype = slot.dtype,
         .constant = slot.storage != nullptr ? slot.storage->constant.get() : nullptr});
    operands_.push_back(input.operand);
  }
}

// Behind an anchor a result has the shape of the group's space, even if its own shape differs.
void GroupCall::add_outputs(const FusedGroup& group,
                            const detail::Layout* space,
                            std::span<const HeldStorage> outputs,
                            const RuntimeTables& tables) {
  std::size_t next = 0;
  for (const FusedGroup::Member& member : group.members) {
    if (member.is_output()) {
      views_.push_back(
          {.data =
               member.feeds_next_anchor || outputs.empty() ? nullptr : outputs[next++]->block.data,
           .layout = space != nullptr ? space : &tables.shapes.layout(member.operand.shape),
           .dtype = member.operand.dtype});
      operands_.push_back(member.operand);
    }
  }
}

void GroupCall::write_parameters(const FusedGroup& group) {
  for (const FusedGroup::Member& member : group.members) {
    if (member.role == FusedGroup::Role::computes) {
      const OpView& op = member.op;
      write_group_parameters(
          op, op.record().input_count > 0 ? op.input(0).dtype : member.operand.dtype, blob_);
    }
  }
}

}  // namespace hearth
