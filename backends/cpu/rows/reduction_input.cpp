#include "reduction_input.hpp"

namespace hearth::cpu {

Support ReductionInput::supports(const KernelCall& call, const KernelContext& context) {
  const KernelCall& producer = *call.prologue->call;
  if (producer.op.kind() != OpKind::cross_entropy) {
    return PrologueRows::supports(*call.prologue, 0, context);
  }
  return ClassLosses::reads_in_place(producer)
             ? Support{}
             : Support{.yes = false, .reason = "logits that a cross entropy has to lay out anew"};
}

Status ReductionInput::start(const Prologue* prologue, KernelContext& context) {
  if (prologue != nullptr && prologue->call->op.kind() == OpKind::cross_entropy) {
    return losses_.emplace().start(*prologue->call, context);
  }
  return rows_.start(prologue, context);
}

ReductionInput::Part::Part(const ReductionInput& of) {
  if (of.losses_.has_value()) {
    losses_.emplace(*of.losses_);
  } else {
    rows_.emplace(of.rows_, nullptr);  // a producer without row buffers needs no memory
  }
}

void ReductionInput::Part::make(std::byte* to, std::int64_t begin, std::int64_t end) {
  if (losses_.has_value()) {
    losses_->make(to, begin, end);
  } else {
    rows_->make(to, begin, end);
  }
}

}  // namespace hearth::cpu
