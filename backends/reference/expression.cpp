#include "evaluators.hpp"

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/pointwise.hpp>

#include <vector>

namespace hearth::reference {

// Not in f64 as the other evaluators: a kernel's types are part of what it says, and the
// interpreter is its meaning.
Status evaluate_expression(const KernelCall& call) {
  const Shape& shape = call.outputs[0].shape();
  std::vector<KernelTensor> tensors;
  std::vector<Shape> shapes;
  for (const TensorView& in : call.inputs) {
    tensors.push_back({in.data, *in.layout});
    shapes.push_back(in.shape());
  }
  for (const TensorView& out : call.outputs) {
    tensors.push_back({out.data, *out.layout});
  }
  const std::span<const KernelTensor> operands(tensors);
  const ExpressionParameters parameters(call.op, *call.expression);
  Status status = interpret(spread(call.expression->kernel, shapes, shape),
                            {.extents = shape.dims(),
                             .inputs = operands.first(call.inputs.size()),
                             .outputs = operands.subspan(call.inputs.size()),
                             .parameters = parameters.all()});
  if (status.has_value()) {
    return status;
  }
  Error error = status.error();
  error.op = call.expression->name;
  return error;
}

}  // namespace hearth::reference
