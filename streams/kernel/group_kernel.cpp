#include <hearth/streams/kernel/group_kernel.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/kernel/kernel_builder.hpp>
#include <hearth/streams/kernel/kernel_verifier.hpp>
#include <hearth/streams/kernel/op_expression.hpp>
#include <hearth/streams/op_facts.hpp>

namespace hearth {
namespace {

/// "mul+erf+add", for errors and traces; long groups by their first ops.
std::string name_of(std::span<const GroupOp> ops) {
  constexpr std::size_t kMostNamed = 8;
  std::string text;
  for (const GroupOp& each : ops.first(std::min(ops.size(), kMostNamed))) {
    text += text.empty() ? "" : "+";
    text += name(each.op.kind());
  }
  return ops.size() > kMostNamed ? text + "+" + std::to_string(ops.size() - kMostNamed) + " more"
                                 : text;
}

std::uint32_t flops_of(const KernelIR& kernel) {
  return static_cast<std::uint32_t>(std::ranges::count_if(kernel.body, [](const KernelNode& node) {
    return operand_count(node.primitive) > 0 && node.primitive != Primitive::convert;
  }));
}

std::vector<AffineIndex> plain_map() {
  return {AffineIndex{.terms = {IndexTerm{}}}};
}

}  // namespace

// Dropout takes its words by the place in the whole tensor, which all results of a group share.
bool may_stand_in_group(OpKind kind, DType dtype) noexcept {
  static const std::array<bool, kOpKindCount> kStands = [] {
    std::array<bool, kOpKindCount> stands{};
    for (int i = 0; i < kOpKindCount; ++i) {
      const auto each = static_cast<OpKind>(i);
      stands[static_cast<std::size_t>(i)] =
          each == OpKind::fill ||
          (op_facts(each).fusion == FusionClass::elementwise && has_expression(each));
    }
    return stands;
  }();
  return kStands[static_cast<std::size_t>(kind)] && !may_fail(kind, dtype);
}

// What op_parameters() gives for kinds that stand in groups: an immediate, what a fill has, or the
// numbers of a dropout.
std::size_t group_parameter_count(const OpView& op) noexcept {
  constexpr std::size_t kOfDropout = 4;
  const OpRecord& record = op.record();
  if (record.kind == OpKind::dropout) {
    return kOfDropout;
  }
  return record.kind == OpKind::fill || record.has(RecordFlag::scalar_lhs) ||
                 record.has(RecordFlag::scalar_rhs)
             ? 1
             : 0;
}

// A number is nearly always an immediate, which needs no list.
void write_group_parameters(const OpView& op, DType dtype, std::vector<std::byte>& to) {
  const auto write = [&to](const ScalarAttributes& value, DType type) {
    const std::size_t place = to.size();
    to.resize(place + sizeof(std::uint64_t));
    if (is_float(type)) {
      std::memcpy(to.data() + place, &value.real, sizeof value.real);
    } else {
      std::memcpy(to.data() + place, &value.integer, sizeof value.integer);
    }
  };
  if (op.kind() == OpKind::dropout) {
    for (const KernelParameter& parameter : op_parameters(op, dtype)) {
      write(parameter.value, parameter.type);
    }
  } else if (group_parameter_count(op) > 0) {
    write(op.attributes<ScalarAttributes>(), dtype);
  }
}

Result<ExpressionRef> make_group_expression(std::span<const GroupOp> ops,
                                            std::span<const DType> inputs) {
  KernelBuilder builder({0});
  std::vector<KernelValue> from_outside;
  for (const DType dtype : inputs) {
    from_outside.push_back(builder.input(dtype, plain_map()));
  }
  std::vector<KernelValue> made;
  for (const GroupOp& each : ops) {
    std::vector<KernelValue> operands;
    for (const GroupSource& source : each.sources) {
      operands.push_back(source.is_made ? made[source.number] : from_outside[source.number]);
    }
    const DType dtype = operands.empty() ? each.dtype : operands[0].type;
    std::vector<KernelValue> parameters;
    for (const KernelParameter& parameter : op_parameters(each.op, dtype)) {
      parameters.push_back(builder.parameter(parameter.type));
    }
    made.push_back(op_expression(builder, each.op, operands, parameters, {&each.dtype, 1})[0]);
    if (each.is_output) {
      builder.output(made.back());
    }
  }
  auto group = std::make_shared<Expression>();
  group->name = name_of(ops);
  group->kernel = builder.take();
  if (group->kernel.inputs.empty() || group->kernel.outputs.empty()) {
    return Error{.code = ErrorCode::unsupported,
                 .text = "a group that reads nothing, or whose results nobody needs"};
  }
  HEARTH_TRY_STATUS(verify(group->kernel));
  group->hash = hash(group->kernel);
  group->flops = flops_of(group->kernel);
  return ExpressionRef(std::move(group));
}

}  // namespace hearth
