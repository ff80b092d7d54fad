#include "epilogue_rows.hpp"

#include "epilogue.hpp"

#include <hearth/streams/kernel/expression.hpp>

#include <algorithm>
#include <span>

namespace hearth::cpu {

Status EpilogueRows::start(const KernelCall& call, const KernelContext& context) {
  if (call.epilogue == nullptr) {
    return {};
  }
  const Epilogue& epilogue = *call.epilogue;
  HEARTH_TRY(program_, program_of(epilogue, context));
  isa_ = context.isa;
  inputs_[0] = {.layout = call.outputs[0].layout, .dtype = program_->kernel.inputs[0].dtype};
  std::ranges::copy(epilogue.inputs, inputs_.begin() + 1);
  call_ = {.inputs = std::span(inputs_).first(epilogue.inputs.size() + 1),
           .outputs = call.outputs,
           .parameters = epilogue.parameters,
           .stays_cached = call.outputs[0].data == nullptr};
  tiles_.emplace(*program_, call_, isa_);
  return {};
}

EpilogueRows::Part::Part(const EpilogueRows& of) : tiles_(*of.tiles_), run_(*of.program_, of.isa_) {
  UndefinedElement none;  // stays unset: an epilogue has no integer ops that can fail
  static_cast<void>(run_.start(of.call_.parameters, tiles_.sizes(), none));
}

}  // namespace hearth::cpu
