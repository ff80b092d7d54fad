#include "expression_op.hpp"

#include <bit>
#include <cmath>

#include "op_operand.hpp"

#include <hearth/runtime/base/float_environment.hpp>
#include <hearth/runtime/tensor_access.hpp>

namespace hearth::detail {
namespace {

std::uint64_t float_bits(double value, DType type) noexcept {
  const double rounded =
      type == DType::f64 ? value : static_cast<double>(static_cast<float>(value));
  return std::bit_cast<std::uint64_t>(rounded);
}
std::uint64_t bits_of(const ScalarAttributes& value, DType type) noexcept {
  return is_float(type) ? float_bits(value.real, type) : static_cast<std::uint64_t>(value.integer);
}
std::uint64_t bits_of(double value, DType type) noexcept {
  return is_float(type) ? float_bits(value, type)
                        : static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
}

template <class Scalar>
void fill_bits(std::span<std::uint64_t> bits,
               const Expression& expression,
               std::span<const Scalar> scalars) noexcept {
  const FloatEnvironment environment;
  const std::vector<DType>& types = expression.kernel.parameters;
  HEARTH_ASSERT(scalars.size() == types.size(), "another number of parameters");
  for (std::size_t i = 0; i < scalars.size(); ++i) {
    bits[i] = bits_of(scalars[i], types[i]);
  }
}

}  // namespace

ParameterBits::ParameterBits(const Expression& expression,
                             std::span<const ScalarAttributes> scalars) noexcept
    : count_(scalars.size()) {
  fill_bits(bits_, expression, scalars);
}

ParameterBits::ParameterBits(const Expression& expression, std::span<const double> scalars) noexcept
    : count_(scalars.size()) {
  fill_bits(bits_, expression, scalars);
}

ParameterBits::ParameterBits(std::span<const std::uint64_t> bits) noexcept : count_(bits.size()) {
  std::ranges::copy(bits, bits_.begin());
}

namespace {

// Returns whether the inputs fit and have one shape, as those of an update: then no shape rule is
// needed. Layouts are interned, one for each shape.
bool are_of_one_shape(const Expression& expression, std::span<const Arg> inputs) noexcept {
  const std::vector<KernelInput>& wanted = expression.kernel.inputs;
  const TensorImpl* const first = detail::TensorAccess::impl(inputs[0].tensor());
  if (first == nullptr || inputs.size() != wanted.size()) {
    return false;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorImpl* const impl = detail::TensorAccess::impl(inputs[i].tensor());
    if (impl == nullptr || impl->layout != first->layout || impl->dtype != wanted[i].dtype) {
      return false;
    }
  }
  return true;
}

// The shape of the results, by the expression's rule.
Shape shape_of(const ExpressionOp& op) {
  std::array<TensorSpec, kMostExpressionInputs> inputs;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    inputs[i] = spec_of(OpKind::expression, op.inputs[i]);
  }
  return checked(
      expression_shape(*op.expression, std::span<const TensorSpec>(inputs).first(op.inputs.size())),
      OpKind::expression,
      op.location,
      op.inputs);
}

}  // namespace

// Phases: check the operands; intern the expression; determine types and shape of the results;
// submit the record.
void submit(const ExpressionOp& op, std::span<Tensor> results) {
  const Expression& expression = *op.expression;
  const bool is_of_one_shape = are_of_one_shape(expression, op.inputs);
  const Shape shape = is_of_one_shape ? op.inputs[0].tensor().shape() : shape_of(op);
  RuntimeTables& tables = detail::TensorAccess::impl(op.inputs[0].tensor())->endpoint->tables();
  const ExprId id =
      checked(tables.expressions.intern(op.expression), OpKind::expression, op.location, op.inputs);
  const ExpressionAttributes attributes{
      .expression = id.value,
      .parameter_count = static_cast<std::uint32_t>(expression.kernel.parameters.size()),
      .flops = expression.flops};
  const Submission submission{.kind = OpKind::expression,
                              .location = op.location,
                              .inputs = op.inputs,
                              .attributes = bytes_of(attributes),
                              .flags = op.flags,
                              .parameters = op.parameters.bytes(),
                              .name = expression.name};
  std::array<DType, kMostExpressionOutputs> dtypes{};
  for (std::size_t i = 0; i < results.size(); ++i) {
    dtypes[i] = expression.kernel.outputs[i].dtype;
  }
  if (is_of_one_shape) {
    submit_like(submission, std::span<const DType>(dtypes).first(results.size()), results);
    return;
  }
  std::array<TensorSpec, kMostExpressionOutputs> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs[i] = {dtypes[i], shape};
  }
  submit(submission, std::span<const TensorSpec>(outputs).first(results.size()), results);
}

}  // namespace hearth::detail
