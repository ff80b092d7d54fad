#include <hearth/backends/reference/reference.hpp>

#include "evaluators.hpp"

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/pointwise.hpp>

#include <vector>

namespace hearth::reference {

Status evaluate_with_prologue(const KernelCall& call) {
  KernelCall maker = *call.prologue->call;
  const TensorView& handed_on = maker.outputs[0];
  std::vector<std::byte> value(
      static_cast<std::size_t>(handed_on.element_count() * size_bytes(handed_on.dtype)));
  const TensorView made{value.data(), handed_on.layout, handed_on.dtype};
  maker.outputs = std::span(&made, 1);
  HEARTH_TRY_STATUS(evaluate(maker));
  std::vector<TensorView> inputs(call.inputs.begin(), call.inputs.end());
  inputs[static_cast<std::size_t>(call.prologue->input)] = made;
  KernelCall rest = call;
  rest.inputs = inputs;
  rest.prologue = nullptr;
  return evaluate(rest);
}

// The op into memory beside, then the expression, whose input 0 that is.
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
  std::vector<KernelTensor> inputs{{made.data, Layout(shape)}};
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
