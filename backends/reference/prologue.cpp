#include <hearth/backends/reference/reference.hpp>

#include "evaluators.hpp"

#include <vector>

namespace hearth::reference {

// Runs the producer of the input into temporary memory, then the op, which reads it there.
Status evaluate_with_prologue(const KernelCall& call) {
  KernelCall producer = *call.prologue->call;
  TensorView made = producer.outputs[0];
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(made.element_count() * size_bytes(made.dtype)));
  made.data = bytes.data();
  producer.outputs = std::span(&made, 1);
  HEARTH_TRY_STATUS(evaluate(producer));
  std::vector<TensorView> inputs(call.inputs.begin(), call.inputs.end());
  inputs[static_cast<std::size_t>(call.prologue->input)].data = bytes.data();
  KernelCall op = call;
  op.inputs = inputs;
  op.prologue = nullptr;
  return evaluate(op);
}

}  // namespace hearth::reference
