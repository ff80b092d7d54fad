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
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_facts.hpp>

namespace hearth {
namespace {

/// Returns "mul+erf+add" for errors and traces; a long group is named by its first ops.
std::string name_of(std::span<const GroupOp> ops) {
  constexpr std::size_t kMostNamed = 8;
  std::string text;
  std::size_t count = 0;
  for (const GroupOp& each : ops) {
    const bool is_run = each.role == GroupRole::computes || each.role == GroupRole::anchor;
    if (is_run && ++count <= kMostNamed) {
      text += text.empty() ? "" : "+";
      text += each.expression != nullptr ? std::string_view(each.expression->name)
                                         : name(each.op.kind());
    }
  }
  return count > kMostNamed ? text + "+" + std::to_string(count - kMostNamed) + " more" : text;
}

std::uint32_t flops_of(const KernelIR& kernel) {
  return static_cast<std::uint32_t>(std::ranges::count_if(kernel.body, [](const KernelNode& node) {
    return operand_count(node.primitive) > 0 && node.primitive != Primitive::convert;
  }));
}

/// Returns the map that uses each axis as it is.
std::vector<AffineIndex> plain_map(int axes) {
  std::vector<AffineIndex> map(static_cast<std::size_t>(axes));
  for (int axis = 0; axis < axes; ++axis) {
    map[static_cast<std::size_t>(axis)].terms.push_back({.axis = axis});
  }
  return map;
}

/// Returns the value of an op that runs along rows. The inputs have its computing type.
KernelValue row_value(KernelBuilder& builder, OpKind kind, std::span<const KernelValue> inputs) {
  const auto apply = [&](Primitive primitive) {
    return builder.apply(primitive, inputs[0].type, inputs);
  };
  switch (kind) {
    case OpKind::reduce_sum:
      return builder.fold(FoldOp::sum, inputs[0]);
    case OpKind::reduce_mean:
      return builder.fold(FoldOp::mean, inputs[0]);
    case OpKind::reduce_max:
      return builder.fold(FoldOp::max, inputs[0]);
    case OpKind::reduce_min:
      return builder.fold(FoldOp::min, inputs[0]);
    case OpKind::reduce_prod:
      return builder.fold(FoldOp::prod, inputs[0]);
    case OpKind::softmax:
      return apply(Primitive::softmax);
    case OpKind::log_softmax:
      return apply(Primitive::log_softmax);
    case OpKind::softmax_backward:
      return apply(Primitive::softmax_backward);
    default:
      return apply(Primitive::log_softmax_backward);
  }
}

/// Returns whether row_value() supports the kind, for floats.
bool is_row_kind(OpKind kind, DType dtype) noexcept {
  switch (kind) {
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:
    case OpKind::reduce_max:
    case OpKind::reduce_min:
    case OpKind::reduce_prod:
    case OpKind::softmax:
    case OpKind::log_softmax:
    case OpKind::softmax_backward:
    case OpKind::log_softmax_backward:
      return is_float(dtype);
    default:
      return false;
  }
}

}  // namespace

// A max or min of no elements fails, but rows are never empty (row_length()). Dropout takes its
// words by the position in the whole tensor, which all results of a group share.
bool may_join_group(OpKind kind, DType dtype) noexcept {
  static const std::array<bool, kOpKindCount> kStands = [] {
    std::array<bool, kOpKindCount> stands{};
    for (int i = 0; i < kOpKindCount; ++i) {
      const auto each = static_cast<OpKind>(i);
      stands[static_cast<std::size_t>(i)] =
          each == OpKind::fill ||
          (op_facts(each).fusion == FusionClass::elementwise && has_expression(each) &&
           op_info(each).op_class != OpClass::optimizer);
    }
    return stands;
  }();
  return (kStands[static_cast<std::size_t>(kind)] && !may_fail(kind, dtype)) ||
         is_row_kind(kind, dtype);
}

bool may_join_group(const Expression& expression) noexcept {
  return !expression.may_fail && expression.kernel.outputs.size() == 1;
}

bool may_anchor_group(OpKind kind, DType dtype) noexcept {
  switch (kind) {
    case OpKind::gather:
    case OpKind::index_select:
      return true;
    case OpKind::conv2d:
    case OpKind::conv2d_backward_input:
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
    case OpKind::attention:
    case OpKind::cross_entropy:
      return is_float(dtype);
    default:  // of i8 the result is i32
      return op_facts(kind).fusion == FusionClass::contraction &&
             (is_float(dtype) || dtype == DType::i8);
  }
}

// For any type: the op itself runs unchanged, beside the producer of its input.
bool may_end_chain(OpKind kind) noexcept {
  return op_facts(kind).fusion == FusionClass::reduce && is_row_kind(kind, DType::f32);
}

bool may_view_anchor(OpKind kind) noexcept {
  return kind == OpKind::gather || kind == OpKind::index_select;
}

bool runs_along_rows(OpKind kind) noexcept {
  const FusionClass fusion = op_facts(kind).fusion;
  return fusion == FusionClass::reduce || fusion == FusionClass::row;
}

std::uint32_t row_axes_of(const OpView& op, int rank) noexcept {
  if (op_facts(op.kind()).fusion == FusionClass::reduce) {
    return op.attributes<ReduceAttributes>().axes;
  }
  const std::int32_t axis = op.attributes<AxisAttributes>().axis;
  return axis >= 0 && axis < rank ? 1U << static_cast<unsigned>(axis) : 0U;
}

bool is_formed_by_attributes(OpKind kind) noexcept {
  return kind == OpKind::expression || runs_along_rows(kind);
}

bool depends_on_place(OpKind kind) noexcept {
  return kind == OpKind::dropout;
}

std::int64_t row_length(const Shape& shape, int axes) noexcept {
  std::int64_t length = 1;
  for (int axis = shape.rank() - axes; axis < shape.rank(); ++axis) {
    length *= shape[axis];
  }
  return length;
}

// Number of op_parameters() for kinds allowed in groups: an immediate, the value of a fill, the
// numbers of a dropout, or those of an expression.
std::size_t group_parameter_count(const OpView& op) noexcept {
  constexpr std::size_t kOfDropout = 4;
  const OpRecord& record = op.record();
  if (record.kind == OpKind::dropout) {
    return kOfDropout;
  }
  if (record.kind == OpKind::expression) {
    return op.attributes<ExpressionAttributes>().parameter_count;
  }
  return record.kind == OpKind::fill || record.has(RecordFlag::scalar_lhs) ||
                 record.has(RecordFlag::scalar_rhs)
             ? 1
             : 0;
}

// Fast path: a number is nearly always an immediate, which needs no list.
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
  if (op.kind() == OpKind::expression) {
    const auto bytes = op.last_blob_bytes(group_parameter_count(op) * sizeof(std::uint64_t));
    to.insert(to.end(), bytes.begin(), bytes.end());
  } else if (op.kind() == OpKind::dropout ||
             (op.kind() == OpKind::fill && size_bytes(dtype) == 2)) {
    for (const KernelParameter& parameter : op_parameters(op, dtype)) {
      write(parameter.value, parameter.type);
    }
  } else if (group_parameter_count(op) > 0) {
    write(op.attributes<ScalarAttributes>(), dtype);
  }
}

namespace {

/// Builds a group's values, op by op.
class GroupBody {
 public:
  GroupBody(std::span<const GroupOp> ops,
            std::span<const GroupInput> inputs,
            bool has_rows,
            Between between)
      : builder_(has_rows ? std::vector<std::int32_t>{0, 1} : std::vector<std::int32_t>{0},
                 has_rows ? 0b10U : 0U),
        between_(between) {
    from_outside_.reserve(inputs.size());
    made_.reserve(ops.size());
    if (!ops.empty() && ops.front().role == GroupRole::anchor) {
      anchor_ = builder_.input(ops.front().dtype, plain_map(1));
    }
    for (const GroupInput& input : inputs) {
      const bool is_whole = has_rows && input.extent == GroupExtent::full;
      from_outside_.push_back(builder_.input(input.dtype, plain_map(is_whole ? 2 : 1)));
    }
  }

  void add(const GroupOp& op) {
    made_.push_back(value_of(op));
    if (op.is_output) {
      builder_.output(builder_.convert(made_.back(), op.dtype));
    }
  }
  [[nodiscard]] KernelIR take() { return builder_.take(); }

 private:
  [[nodiscard]] KernelValue value_of(const GroupOp& op) {
    if (op.role == GroupRole::anchor) {
      return anchor_;
    }
    if (op.role == GroupRole::unneeded) {
      return {};
    }
    std::vector<KernelValue> operands;
    operands.reserve(op.sources.size());
    for (const GroupSource& source : op.sources) {
      operands.push_back(
          widened(source.is_made ? made_[source.number] : from_outside_[source.number]));
    }
    if (op.role == GroupRole::views) {
      return operands[0];
    }
    if (runs_along_rows(op.op.kind())) {
      for (KernelValue& operand : operands) {
        operand = builder_.convert(operand, compute_type(operand.type));
      }
      return builder_.convert(row_value(builder_, op.op.kind(), operands), type_between(op));
    }
    if (op.expression != nullptr) {
      return builder_.convert(captured_value(*op.expression, operands), type_between(op));
    }
    std::vector<KernelValue> parameters;
    for (const KernelParameter& parameter :
         op_parameters(op.op, operands.empty() ? op.dtype : operands[0].type)) {
      parameters.push_back(builder_.parameter(parameter.type));
    }
    const DType type = type_between(op);
    return op_expression(builder_, op.op, operands, parameters, {&type, 1})[0];
  }

  /// Returns the value of a captured expression. The operands are converted to its own types.
  [[nodiscard]] KernelValue captured_value(const Expression& expression,
                                           std::vector<KernelValue>& operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      operands[i] = builder_.convert(operands[i], expression.kernel.inputs[i].dtype);
    }
    std::vector<KernelValue> parameters;
    for (const DType type : expression.kernel.parameters) {
      parameters.push_back(builder_.parameter(type));
    }
    return builder_.splice(expression.kernel, operands, parameters)[0];
  }

  /// Returns the type of an op's value as seen by the others of the group. A cast, or a number with
  /// an explicit type, gives the rounded value.
  [[nodiscard]] DType type_between(const GroupOp& op) const noexcept {
    const bool rounds = between_ == Between::rounded || op.op.kind() == OpKind::cast ||
                        op.op.kind() == OpKind::fill;
    return rounds ? op.dtype : compute_type(op.dtype);
  }
  [[nodiscard]] KernelValue widened(KernelValue value) {
    return between_ == Between::rounded ? value : builder_.convert(value, compute_type(value.type));
  }

  KernelBuilder builder_;
  Between between_;
  KernelValue anchor_ = {};
  std::vector<KernelValue> from_outside_ = {};
  std::vector<KernelValue> made_ = {};
};

}  // namespace

namespace {

// A value computed from per-row values alone has one element for each row. So the kernel would
// store only one, even if its op gives it the shape of the rows.
bool fill_their_rows(std::span<const GroupOp> ops, const KernelIR& kernel) noexcept {
  std::size_t output = 0;
  for (const GroupOp& op : ops) {
    if (!op.is_output) {
      continue;
    }
    const std::size_t axes = kernel.outputs[output++].map.size();
    if (op.extent == GroupExtent::full && axes != static_cast<std::size_t>(kernel.axis_count())) {
      return false;
    }
  }
  return true;
}

}  // namespace

Result<ExpressionRef> make_group_expression(std::span<const GroupOp> ops,
                                            std::span<const GroupInput> inputs,
                                            bool has_rows,
                                            Between between) {
  GroupBody body(ops, inputs, has_rows, between);
  for (const GroupOp& each : ops) {
    body.add(each);
  }
  auto group = std::make_shared<Expression>();
  group->name = name_of(ops);
  group->kernel = body.take();
  if (group->kernel.inputs.empty() || group->kernel.outputs.empty()) {
    return Error{.code = ErrorCode::unsupported,
                 .text = "a group without inputs, or without results that are needed"};
  }
  HEARTH_TRY_STATUS(verify(group->kernel));
  if (has_rows && !fill_their_rows(ops, group->kernel)) {
    return Error{.code = ErrorCode::unsupported,
                 .text = "a group of which a result repeats one number along each row"};
  }
  group->hash = hash(group->kernel);
  group->flops = flops_of(group->kernel);
  return ExpressionRef(std::move(group));
}

}  // namespace hearth
