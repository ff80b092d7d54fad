#include "evaluators.hpp"

#include <hearth/streams/kernel/expression.hpp>
#include <hearth/streams/kernel/kernel_interpreter.hpp>
#include <hearth/streams/kernel/pointwise.hpp>
#include <hearth/streams/op_attributes.hpp>

#include <vector>

namespace hearth::reference {

namespace {

/// Returns the kernel for the shapes of this call.
Result<KernelIR> kernel_of(const KernelCall& call, std::span<const Shape> shapes, Shape& space) {
  const KernelIR& kernel = call.expression->kernel;
  if (!is_row_kernel(kernel)) {
    space = call.outputs[0].shape();
    return spread(kernel, shapes, space);
  }
  const auto row_axes = static_cast<int>(call.op.attributes<ExpressionAttributes>().row_axes);
  HEARTH_TRY(space, row_space(kernel, shapes, row_axes));
  return spread_rows(kernel, shapes, space, row_axes);
}

Status run(const KernelCall& call) {
  std::vector<Shape> shapes;
  for (const TensorView& in : call.inputs) {
    shapes.push_back(in.shape());
  }
  Shape space;
  HEARTH_TRY(const KernelIR kernel, kernel_of(call, shapes, space));
  std::vector<KernelTensor> inputs;
  for (const TensorView& in : call.inputs) {
    inputs.push_back({in.data, *in.layout});
  }
  // A result with one element for each row may keep the axes of the rows; the kernel drops them.
  std::vector<KernelTensor> outputs;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    Shape shape;
    for (std::size_t axis = 0; axis < kernel.outputs[i].map.size(); ++axis) {
      shape.push_back(space[static_cast<int>(axis)]);
    }
    outputs.push_back({call.outputs[i].data, detail::Layout(shape)});
  }
  const ExpressionParameters parameters(call.op, *call.expression);
  return interpret(kernel,
                   {.extents = space.dims(),
                    .inputs = inputs,
                    .outputs = outputs,
                    .parameters = parameters.all()});
}

}  // namespace

// The types of a kernel are part of its meaning, so the interpreter of KernelIR runs it, not f64.
Status evaluate_expression(const KernelCall& call) {
  Status status = run(call);
  if (status.has_value()) {
    return status;
  }
  Error error = status.error();
  error.op = call.expression->name;
  return error;
}

}  // namespace hearth::reference
