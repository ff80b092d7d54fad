#include "expression_bytes.hpp"

#include <utility>

namespace hearth::trace_file {
namespace {

const std::vector<AffineIndex>& plain_map() {
  static const std::vector<AffineIndex> kMap{{.terms = {{.axis = 0}}}};
  return kMap;
}

void put_type(ByteWriter& out, DType dtype) {
  out.put(static_cast<std::uint8_t>(dtype));
}

Result<DType> get_type(ByteReader& in) {
  HEARTH_TRY(const auto number, in.get<std::uint8_t>());
  return static_cast<DType>(number);  // the verifier checks the number
}

void put_node(ByteWriter& out, const KernelNode& node) {
  out.put(static_cast<std::uint8_t>(node.primitive));
  put_type(out, node.type);
  for (const std::int32_t operand : node.operands) {
    out.put(operand);
  }
  out.put(node.number);
  out.put(node.bits);
}

Result<KernelNode> get_node(ByteReader& in) {
  KernelNode node;
  HEARTH_TRY(const auto primitive, in.get<std::uint8_t>());
  node.primitive = static_cast<Primitive>(primitive);
  HEARTH_TRY(node.type, get_type(in));
  for (std::int32_t& operand : node.operands) {
    HEARTH_TRY(operand, in.get<std::int32_t>());
  }
  HEARTH_TRY(node.number, in.get<std::int32_t>());
  HEARTH_TRY(node.bits, in.get<std::uint64_t>());
  return node;
}

// Reads the parts in the order of put_expression().
Result<KernelIR> get_kernel(ByteReader& in) {
  KernelIR kernel{.extents = {0}};
  HEARTH_TRY(const auto inputs, in.get_count(1));
  for (std::uint32_t i = 0; i < inputs; ++i) {
    HEARTH_TRY(const DType dtype, get_type(in));
    kernel.inputs.push_back({dtype, plain_map()});
  }
  HEARTH_TRY(const auto parameters, in.get_count(1));
  for (std::uint32_t i = 0; i < parameters; ++i) {
    HEARTH_TRY(const DType dtype, get_type(in));
    kernel.parameters.push_back(dtype);
  }
  HEARTH_TRY(const auto nodes, in.get_count(26));
  for (std::uint32_t i = 0; i < nodes; ++i) {
    HEARTH_TRY(const KernelNode node, get_node(in));
    kernel.body.push_back(node);
  }
  HEARTH_TRY(const auto outputs, in.get_count(5));
  for (std::uint32_t i = 0; i < outputs; ++i) {
    HEARTH_TRY(const DType dtype, get_type(in));
    HEARTH_TRY(const auto value, in.get<std::int32_t>());
    kernel.outputs.push_back({dtype, plain_map(), value});
  }
  return kernel;
}

}  // namespace

void put_expression(ByteWriter& out, const Expression& expression) {
  const KernelIR& kernel = expression.kernel;
  out.put_text(expression.name);
  out.put_count(kernel.inputs.size());
  for (const KernelInput& input : kernel.inputs) {
    put_type(out, input.dtype);
  }
  out.put_count(kernel.parameters.size());
  for (const DType parameter : kernel.parameters) {
    put_type(out, parameter);
  }
  out.put_count(kernel.body.size());
  for (const KernelNode& node : kernel.body) {
    put_node(out, node);
  }
  out.put_count(kernel.outputs.size());
  for (const KernelOutput& output : kernel.outputs) {
    put_type(out, output.dtype);
    out.put(output.value);
  }
}

Result<ExpressionRef> get_expression(ByteReader& in) {
  const std::size_t start = in.place();
  HEARTH_TRY(std::string name, in.get_text());
  HEARTH_TRY(KernelIR kernel, get_kernel(in));
  Result<ExpressionRef> expression = make_expression(std::move(name), std::move(kernel));
  if (!expression.has_value()) {
    return bad_byte(start, expression.error().text);
  }
  return expression;
}

}  // namespace hearth::trace_file
