#include <hearth/streams/kernel/expression.hpp>

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/checked_file.hpp>
#include <hearth/streams/kernel/kernel_verifier.hpp>
#include <hearth/streams/kernel/pointwise.hpp>

namespace hearth {
namespace {

Error broken(const std::string& name, ErrorCode code, std::string_view what) {
  return Error{.code = code, .text = fmt::format("{}: {}", name, what), .op = name};
}

// Primitives whose value depends on more than the elements at its position and the parameters.
bool is_placed(Primitive primitive) noexcept {
  return primitive == Primitive::index || primitive == Primitive::position ||
         primitive == Primitive::philox;
}

bool fails_on_integers(const KernelNode& node) noexcept {
  return (node.primitive == Primitive::div || node.primitive == Primitive::pow) &&
         !is_float(node.type);
}

bool is_leaf(Primitive primitive) noexcept {
  return operand_count(primitive) == 0 || primitive == Primitive::convert;
}

Status check_limits(const std::string& name, const KernelIR& kernel) {
  const auto check = [&](std::string_view what, std::size_t count, std::size_t most) -> Status {
    if (count > most) {
      return broken(name,
                    ErrorCode::invalid_argument,
                    fmt::format("it has {} {}, at most {} are possible", count, what, most));
    }
    return {};
  };
  HEARTH_TRY_STATUS(check("inputs", kernel.inputs.size(), kMostExpressionInputs));
  HEARTH_TRY_STATUS(check("results", kernel.outputs.size(), kMostExpressionOutputs));
  return check("parameters", kernel.parameters.size(), kMostExpressionParameters);
}

std::string text_of(const Expression& expression) {
  std::string text = expression.name + "\n" + to_string(expression.kernel);
  for (const ExpressionGradient& gradient : expression.gradients) {
    const ExpressionRef& made_of = gradient.expression;
    text += fmt::format("gradient {:016x}\n", made_of ? made_of->text_hash : 0);
  }
  return text;
}

}  // namespace

Result<ExpressionRef> make_expression(std::string name,
                                      KernelIR kernel,
                                      std::vector<ExpressionGradient> gradients) {
  HEARTH_TRY_STATUS(verify(kernel));
  HEARTH_TRY_STATUS(check_limits(name, kernel));
  const auto is_of_place = [](const KernelNode& node) { return is_placed(node.primitive); };
  if (!is_pointwise(kernel) || kernel.inputs.empty() || kernel.outputs.empty() ||
      std::ranges::any_of(kernel.body, is_of_place)) {
    return broken(name,
                  ErrorCode::invalid_argument,
                  "an expression makes each element of its results from those at its place");
  }
  auto made = std::make_shared<Expression>();
  made->name = std::move(name);
  made->kernel = std::move(kernel);
  made->hash = hash(made->kernel);
  made->flops = static_cast<std::uint32_t>(std::ranges::count_if(
      made->kernel.body, [](const KernelNode& node) { return !is_leaf(node.primitive); }));
  made->may_fail = std::ranges::any_of(made->kernel.body, fails_on_integers);
  made->gradients = std::move(gradients);
  made->text = text_of(*made);
  made->text_hash = xxh64(std::as_bytes(std::span<const char>(made->text)));
  return ExpressionRef(std::move(made));
}

void read_parameters(std::span<const DType> types,
                     std::span<const std::byte> bytes,
                     std::span<ScalarAttributes> parameters) noexcept {
  for (std::size_t i = 0; i < types.size(); ++i) {
    const std::byte* const from = bytes.data() + i * sizeof(std::uint64_t);
    if (is_float(types[i])) {
      std::memcpy(&parameters[i].real, from, sizeof(double));
    } else {
      std::memcpy(&parameters[i].integer, from, sizeof(std::int64_t));
    }
  }
}

ExpressionParameters::ExpressionParameters(const OpView& op, const Expression& expression) noexcept
    : values_{}, count_(expression.kernel.parameters.size()) {
  read_parameters(
      expression.kernel.parameters, op.last_blob_bytes(count_ * sizeof(std::uint64_t)), values_);
}

Result<Shape> expression_shape(const Expression& expression, std::span<const TensorSpec> inputs) {
  const std::vector<KernelInput>& wanted = expression.kernel.inputs;
  if (inputs.size() != wanted.size()) {
    return broken(expression.name,
                  ErrorCode::invalid_argument,
                  fmt::format("takes {} inputs, was given {}", wanted.size(), inputs.size()));
  }
  Shape shape = inputs[0].shape;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype != wanted[i].dtype) {
      return broken(expression.name,
                    ErrorCode::dtype_mismatch,
                    fmt::format("input {} is {}, not {}",
                                i,
                                describe(inputs[i].dtype, inputs[i].shape),
                                name(wanted[i].dtype)));
    }
    if (inputs[i].shape == shape) {
      continue;  // the usual case of an update
    }
    Result<Shape> both = broadcast(shape, inputs[i].shape);
    if (!both.has_value()) {
      return broken(expression.name,
                    ErrorCode::shape_mismatch,
                    fmt::format("shapes do not broadcast: input {} is {}, those before it make {}",
                                i,
                                describe(inputs[i].dtype, inputs[i].shape),
                                shape.to_string()));
    }
    shape = both.value();
  }
  return shape;
}

Error detail::ExpressionPolicy::full(std::uint32_t cap) {
  return Error{
      .code = ErrorCode::out_of_memory,
      .text = fmt::format("expression table: {} expressions are known, and no more fit", cap)};
}

}  // namespace hearth
