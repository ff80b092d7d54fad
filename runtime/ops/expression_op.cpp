#include "expression_op.hpp"

#include <bit>
#include <cmath>

#include "op_operand.hpp"

namespace hearth::detail {
namespace {

std::uint64_t bits_of(double value, DType type) noexcept {
  if (type == DType::f64) {
    return std::bit_cast<std::uint64_t>(value);
  }
  if (is_float(type)) {
    return std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<float>(value)));
  }
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

}  // namespace

ParameterBits::ParameterBits(const Expression& expression, std::span<const double> scalars) noexcept
    : count_(scalars.size()) {
  HEARTH_ASSERT(count_ == expression.kernel.parameters.size(), "another number of parameters");
  for (std::size_t i = 0; i < count_; ++i) {
    bits_[i] = bits_of(scalars[i], expression.kernel.parameters[i]);
  }
}

ParameterBits::ParameterBits(std::span<const std::uint64_t> bits) noexcept : count_(bits.size()) {
  std::ranges::copy(bits, bits_.begin());
}

// Phases: the operands fit, and make this shape; the expression's number; the record.
void submit(const ExpressionOp& op, std::span<Tensor> results) {
  const Expression& expression = *op.expression;
  std::array<TensorSpec, kMostExpressionInputs> inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    inputs[i] = spec_of(OpKind::expression, op.inputs[i]);
  }
  const Shape shape = checked(
      expression_shape(expression, std::span<const TensorSpec>(inputs).first(op.inputs.size())),
      OpKind::expression,
      op.location,
      op.inputs);
  RuntimeTables& tables = op.inputs[0].tensor().impl()->endpoint->tables();
  const ExprId id =
      checked(tables.expressions.intern(op.expression), OpKind::expression, op.location, op.inputs);
  const ExpressionAttributes attributes{
      .expression = id.value,
      .parameter_count = static_cast<std::uint32_t>(expression.kernel.parameters.size()),
      .flops = expression.flops};
  std::array<TensorSpec, kMostExpressionOutputs> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs[i] = {expression.kernel.outputs[i].dtype, shape};
  }
  submit({.kind = OpKind::expression,
          .location = op.location,
          .inputs = op.inputs,
          .attributes = bytes_of(attributes),
          .flags = op.flags,
          .parameters = op.parameters.bytes(),
          .name = expression.name},
         std::span<const TensorSpec>(outputs).first(results.size()),
         results);
}

}  // namespace hearth::detail
