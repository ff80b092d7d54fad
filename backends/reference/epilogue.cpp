#include <hearth/backends/reference/reference.hpp>

#include "evaluators.hpp"

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/pointwise.hpp>

#include <vector>

namespace hearth::reference {

// Runs the op into temporary memory, then the expression with that memory as input 0.
Status evaluate_with_epilogue(const KernelCall& call) {
  const Epilogue& epilogue = *call.epilogue;
  const KernelIR& kernel = epilogue.expression->kernel;
  const Shape& shape = call.outputs[0].shape();
  std::vector<std::byte> result(
      static_cast<std::size_t>(shape.element_count() * size_bytes(kernel.inputs[0].dtype)));
  const TensorView made{result.data(), epilogue.result, kernel.inputs[0].dtype};
  HEARTH_TRY_STATUS(
      evaluate({.op = call.op, .inputs = call.inputs, .outputs = std::span(&made, 1)}));
  std::vector<Shape> shapes{shape};
  std::vector<KernelTensor> inputs{{made.data, detail::Layout(shape)}};
  for (const TensorView& in : epilogue.inputs) {
    shapes.push_back(in.shape());
    inputs.push_back({in.data, *in.layout});
  }
  std::vector<KernelTensor> outputs;
  for (const TensorView& out : call.outputs) {
    outputs.push_back({out.data, *out.layout});
  }
  return interpret(spread(kernel, shapes, shape),
                   {.extents = shape.dims(),
                    .inputs = inputs,
                    .outputs = outputs,
                    .parameters = epilogue.parameters});
}

}  // namespace hearth::reference
