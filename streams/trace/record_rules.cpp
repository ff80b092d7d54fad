#include <hearth/streams/trace/record_rules.hpp>

#include "streams/rule_error.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_facts.hpp>
#include <hearth/streams/shape_rules.hpp>

namespace hearth::rules {
namespace {

using detail::broken;
using Specs = std::span<const TensorSpec>;

constexpr auto kScalarFlags = static_cast<std::uint16_t>(RecordFlag::scalar_lhs) |
                              static_cast<std::uint16_t>(RecordFlag::scalar_rhs);
constexpr auto kUpdateFlag = static_cast<std::uint16_t>(RecordFlag::update);
constexpr auto kFrozenFlag = static_cast<std::uint16_t>(RecordFlag::frozen);
constexpr auto kRecomputesFlag = static_cast<std::uint16_t>(RecordFlag::recomputes);
constexpr auto kKnownFlags = kScalarFlags | kUpdateFlag | kFrozenFlag | kRecomputesFlag |
                             static_cast<std::uint16_t>(RecordFlag::exclusive);

bool may_run_again(OpKind kind) noexcept {
  const FusionClass fusion = op_facts(kind).fusion;
  return fusion == FusionClass::elementwise || fusion == FusionClass::view;
}

// Returns whether the name in the upper byte of the flags belongs to a function of this kind.
bool name_fits(const OpRecord& record) {
  const CalledAs called = called_as(record.flags);
  return called == CalledAs::itself ||
         (is_known(called) && called_info(called).kind == record.kind);
}

struct Counts {
  int least_inputs;
  int most_inputs;
  int least_outputs;
  int most_outputs;
};

Counts counts_of(const OpRecord& record) {
  const OpInfo& info = op_info(record.kind);
  switch (record.kind) {
    case OpKind::upload:
      return {0, 0, 1, 1};
    case OpKind::lend:
      return {1, 1, 1, 1};
    case OpKind::readback:
    case OpKind::drop:
    case OpKind::publish:
    case OpKind::adopt:
      return {1, 1, 0, 0};
    case OpKind::group_begin:
    case OpKind::group_end:
    case OpKind::sync:
    case OpKind::limit:
      return {0, 0, 0, 0};
    case OpKind::sgd_step:  // the momentum is optional, both as input and as output
      return {2, 3, record.input_count - 1, record.input_count - 1};
    case OpKind::adam_step:
      return {4, 4, 3, 3};
    case OpKind::attention_backward:
      return {6, 7, 3, 3};
    case OpKind::topk:
      return {1, 1, 2, 2};
    default:
      break;
  }
  if ((record.flags & kUpdateFlag) != 0) {  // (parameter, gradient, state...) to what it replaces
    return {2, kMostExpressionInputs, record.input_count - 1, record.input_count - 1};
  }
  const bool has_scalar = (record.flags & kScalarFlags) != 0;
  if (info.op_class == OpClass::binary) {
    return {has_scalar ? 1 : 2, has_scalar ? 1 : 2, 1, 1};
  }
  constexpr int kMostOperands = 1 << 15;
  const int most = info.max_inputs == kAnyNumber ? kMostOperands : info.max_inputs;
  return {info.min_inputs, most, 1, info.outputs};
}

std::string range_text(int least, int most) {
  return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
}

Status require_shape(OpKind kind, const TensorSpec& result, const Shape& wanted) {
  if (result.shape == wanted) {
    return {};
  }
  return broken(
      ErrorCode::shape_mismatch,
      kind,
      fmt::format(
          "the result is {}, the rule gives {}", result.shape.to_string(), wanted.to_string()));
}

Status require_spec(OpKind kind, const TensorSpec& result, const TensorSpec& wanted) {
  if (result.dtype != wanted.dtype) {
    return broken(
        ErrorCode::dtype_mismatch,
        kind,
        fmt::format("the result is {}, the rule gives {}", name(result.dtype), name(wanted.dtype)));
  }
  return require_shape(kind, result, wanted.shape);
}

Status bad_attribute(OpKind kind, std::string_view what) {
  return broken(ErrorCode::invalid_argument, kind, what);
}

Status check_axis(OpKind kind, std::int32_t axis, const Shape& shape) {
  if (axis >= 0 && axis < shape.rank()) {
    return {};
  }
  return bad_attribute(kind, fmt::format("axis {} is outside {}", axis, shape.to_string()));
}

// ---- by class ----

Status check_creation(const OpView& op, const TensorSpec& result) {
  const OpKind kind = op.kind();
  if (!accepts(kind, result.dtype)) {
    return broken(
        ErrorCode::dtype_mismatch, kind, fmt::format("does not make {}", name(result.dtype)));
  }
  if (kind == OpKind::arange) {
    const auto attributes = op.attributes<ArangeAttributes>();
    const double last =
        attributes.start + attributes.step * static_cast<double>(result.shape.element_count());
    constexpr double kLargest = 0x1p62;
    const double bound = is_float(result.dtype) ? std::numeric_limits<double>::max() : kLargest;
    if (!(std::abs(attributes.start) <= bound) || !(std::abs(last) <= bound)) {
      return bad_attribute(
          kind,
          fmt::format(
              "from {} to {} is no range of {}", attributes.start, last, name(result.dtype)));
    }
    return result.shape.rank() == 1 ? Status() : bad_attribute(kind, "the result is no vector");
  }
  if (kind == OpKind::random_bernoulli) {
    const double p = op.attributes<RandomAttributes>().a;
    return p >= 0 && p <= 1
               ? Status()
               : bad_attribute(kind, fmt::format("the probability {} is not in 0 to 1", p));
  }
  return {};
}

Status check_unary(const OpView& op, Specs inputs, const TensorSpec& result) {
  const OpKind kind = op.kind();
  HEARTH_TRY(const DType dtype, result_dtype(kind, inputs));
  if (kind == OpKind::dropout) {
    const double p = op.attributes<RandomAttributes>().a;
    if (!(p >= 0 && p <= 1)) {
      return bad_attribute(kind, fmt::format("the probability {} is not in 0 to 1", p));
    }
  }
  return require_spec(kind, result, {kind == OpKind::cast ? result.dtype : dtype, inputs[0].shape});
}

Status check_binary(const OpView& op, Specs inputs, const TensorSpec& result) {
  if (inputs.size() == 1) {  // the other operand is the immediate
    HEARTH_TRY(const DType dtype, result_dtype(op.kind(), inputs));
    return require_spec(op.kind(), result, {dtype, inputs[0].shape});
  }
  HEARTH_TRY(const TensorSpec wanted, binary(op.kind(), inputs[0], inputs[1]));
  return require_spec(op.kind(), result, wanted);
}

// Returns whether start + step*j is in 0...size-1 for all j below count. A slice of one index or
// none has the step 1.
bool is_inside(std::int64_t size, std::int64_t start, std::int64_t step, std::int64_t count) {
  if (count <= 1) {
    return step == 1 && start >= 0 && start <= size - count;
  }
  if (start < 0 || start >= size || step == 0 || step < -size || step > size) {
    return false;
  }
  return (step > 0 ? (size - 1 - start) / step : start / -step) >= count - 1;
}

Status check_slice(const OpView& op, const Shape& whole, const Shape& part) {
  const auto attributes = op.attributes<SliceAttributes>();
  if (whole.rank() != part.rank()) {
    return broken(ErrorCode::shape_mismatch, op.kind(), "the ranks differ");
  }
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (!is_inside(whole[axis], attributes.start[i], attributes.step[i], part[axis])) {
      return bad_attribute(
          op.kind(),
          fmt::format("{} indices from {} in steps of {} do not lie along axis {} of {}",
                      part[axis],
                      attributes.start[i],
                      attributes.step[i],
                      axis,
                      whole.to_string()));
    }
  }
  return {};
}

Status check_view(const OpView& op, const TensorSpec& from, const TensorSpec& result) {
  const OpKind kind = op.kind();
  if (from.dtype != result.dtype) {
    return require_spec(kind, result, from);
  }
  switch (kind) {
    case OpKind::reshape:
      if (from.shape.element_count() != result.shape.element_count()) {
        return reshape(from.shape, result.shape.dims()).status();
      }
      return {};
    case OpKind::permute: {
      const auto attributes = op.attributes<PermuteAttributes>();
      std::vector<int> axes(attributes.axes.begin(), attributes.axes.begin() + from.shape.rank());
      HEARTH_TRY(const Shape wanted, permute(from.shape, axes));
      return require_shape(kind, result, wanted);
    }
    case OpKind::expand:
      return expand(from.shape, result.shape).status();
    case OpKind::slice:
    default:
      return check_slice(op, from.shape, result.shape);
  }
}

Status check_movement(const OpView& op, Specs inputs, const TensorSpec& result) {
  const OpKind kind = op.kind();
  if (kind == OpKind::concat) {
    const int axis = op.attributes<AxisAttributes>().axis;
    HEARTH_TRY_STATUS(check_axis(kind, axis, inputs[0].shape));
    HEARTH_TRY(const TensorSpec wanted, concat(inputs, axis));
    return require_spec(kind, result, wanted);
  }
  HEARTH_TRY(const DType dtype, result_dtype(kind, inputs));
  if (kind == OpKind::slice_scatter) {
    HEARTH_TRY_STATUS(require_spec(kind, result, {dtype, result.shape}));
    return check_slice(op, result.shape, inputs[0].shape);
  }
  return require_spec(kind, result, inputs[0]);  // copy
}

// Integers and bools may be summed and multiplied in i64, bools only there.
DType accumulated_dtype(OpKind kind, DType from, DType result) noexcept {
  const bool may_widen = op_info(kind).dtype_rule == DtypeRule::given && !is_float(from);
  return may_widen && (result == DType::i64 || from == DType::boolean) ? DType::i64 : from;
}

Status check_reduction(const OpView& op, Specs inputs, const TensorSpec& result) {
  const OpKind kind = op.kind();
  const Shape& from = inputs[0].shape;
  HEARTH_TRY(const DType dtype, result_dtype(kind, inputs));
  if (kind == OpKind::argmax || kind == OpKind::argmin) {
    const auto attributes = op.attributes<AxisAttributes>();
    HEARTH_TRY_STATUS(check_axis(kind, attributes.axis, from));
    HEARTH_TRY(const Shape wanted,
               position(kind, from, attributes.axis, attributes.keep_dims != 0));
    return require_spec(kind, result, {dtype, wanted});
  }
  const auto attributes = op.attributes<ReduceAttributes>();
  if ((attributes.axes >> static_cast<unsigned>(from.rank())) != 0 ||
      (attributes.axes == 0 && from.rank() > 0)) {
    return bad_attribute(
        kind,
        fmt::format(
            "the axes of mask {:#x} are not those of {}", attributes.axes, from.to_string()));
  }
  std::vector<int> axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if ((attributes.axes >> static_cast<unsigned>(axis) & 1U) != 0) {
      axes.push_back(axis);
    }
  }
  ReduceAttributes ignored;
  HEARTH_TRY(const Shape wanted, reduce(kind, from, axes, attributes.keep_dims != 0, &ignored));
  return require_spec(kind, result, {accumulated_dtype(kind, dtype, result.dtype), wanted});
}

Status check_contraction(const OpView& op, Specs inputs, const TensorSpec& result) {
  const OpKind kind = op.kind();
  const TensorSpec* bias = inputs.size() > 2 ? &inputs[2] : nullptr;
  if (kind == OpKind::matmul) {
    HEARTH_TRY(const TensorSpec wanted, matmul(inputs[0], inputs[1], bias));
    return require_spec(kind, result, wanted);
  }
  const auto attributes = op.attributes<ConvAttributes>();
  if (kind == OpKind::conv2d) {
    HEARTH_TRY(const TensorSpec wanted, conv2d(inputs[0], inputs[1], bias, attributes));
    return require_spec(kind, result, wanted);
  }
  HEARTH_TRY_STATUS(result_dtype(kind, inputs).status());
  // The gradients: with the result in its position, the forward rule must return the incoming
  // gradient's shape.
  const bool is_input = kind == OpKind::conv2d_backward_input;
  HEARTH_TRY(
      const TensorSpec forward,
      conv2d(is_input ? result : inputs[0], is_input ? inputs[1] : result, nullptr, attributes));
  return require_spec(kind, is_input ? inputs[0] : inputs[1], forward);
}

Status check_pooling(const OpView& op, Specs inputs, Specs outputs) {
  const OpKind kind = op.kind();
  const auto attributes = op.attributes<PoolAttributes>();
  const bool is_forward = kind == OpKind::max_pool2d || kind == OpKind::avg_pool2d;
  if (is_forward) {
    HEARTH_TRY(const TensorSpec wanted, pool2d(kind, inputs[0], attributes));
    HEARTH_TRY_STATUS(require_spec(kind, outputs[0], wanted));
    return outputs.size() > 1 ? require_spec(kind, outputs[1], {DType::i32, wanted.shape})
                              : Status();
  }
  HEARTH_TRY_STATUS(result_dtype(kind, inputs).status());
  const OpKind forward =
      kind == OpKind::max_pool2d_backward ? OpKind::max_pool2d : OpKind::avg_pool2d;
  HEARTH_TRY(const TensorSpec wanted, pool2d(forward, outputs[0], attributes));
  HEARTH_TRY_STATUS(require_spec(kind, inputs[0], wanted));
  return inputs.size() > 1 ? require_shape(kind, inputs[1], wanted.shape) : Status();
}

Status check_row(const OpView& op, Specs inputs, Specs outputs) {
  const OpKind kind = op.kind();
  HEARTH_TRY_STATUS(result_dtype(kind, inputs).status());
  if (kind == OpKind::cross_entropy) {
    HEARTH_TRY(const TensorSpec wanted, cross_entropy(inputs[0], inputs[1]));
    HEARTH_TRY_STATUS(require_spec(kind, outputs[0], wanted));
    return outputs.size() > 1 ? require_spec(kind, outputs[1], inputs[0]) : Status();
  }
  if (kind == OpKind::cross_entropy_backward) {
    HEARTH_TRY(const TensorSpec losses, cross_entropy(inputs[1], inputs[2]));
    HEARTH_TRY_STATUS(require_spec(kind, inputs[0], losses));
    return require_spec(kind, outputs[0], inputs[1]);
  }
  if (kind == OpKind::topk) {
    const auto attributes = op.attributes<TopkAttributes>();
    const int axis = attributes.axis;
    HEARTH_TRY_STATUS(check_axis(kind, axis, inputs[0].shape));
    const bool has_axis = outputs[0].shape.rank() == inputs[0].shape.rank();
    HEARTH_TRY(const Shape wanted,
               topk(inputs[0].shape, has_axis ? outputs[0].shape[axis] : 0, axis));
    HEARTH_TRY_STATUS(require_spec(kind, outputs[0], {inputs[0].dtype, wanted}));
    return require_spec(kind, outputs[1], {DType::i64, wanted});
  }
  const std::int32_t axis =
      is_scan(kind) ? op.attributes<ScanAttributes>().axis : op.attributes<AxisAttributes>().axis;
  HEARTH_TRY_STATUS(check_axis(kind, axis, inputs[0].shape));
  HEARTH_TRY_STATUS(inputs.size() > 1 ? require_spec(kind, inputs[1], inputs[0]) : Status());
  return require_spec(
      kind,
      outputs[0],
      {accumulated_dtype(kind, inputs[0].dtype, outputs[0].dtype), inputs[0].shape});
}

Status check_attention(const OpView& op, Specs inputs, Specs outputs) {
  const OpKind kind = op.kind();
  const auto attributes = op.attributes<AttentionAttributes>();
  if (!std::isfinite(attributes.scale) || (attributes.causal != 0 && attributes.causal != 1)) {
    return bad_attribute(kind,
                         fmt::format("scale {} must be finite and causal {} be 0 or 1",
                                     attributes.scale,
                                     attributes.causal));
  }
  HEARTH_TRY_STATUS(result_dtype(kind, inputs).status());
  const bool is_backward = kind == OpKind::attention_backward;
  const Specs operands = inputs.subspan(is_backward ? 1 : 0);
  const TensorSpec* mask = inputs.size() == op_info(kind).max_inputs ? &inputs.back() : nullptr;
  HEARTH_TRY(const TensorSpec y, attention(kind, operands[0], operands[1], operands[2], mask));
  const TensorSpec statistics = attention_statistics(operands[0]);
  const TensorSpec* const given = is_backward          ? &operands[4]
                                  : outputs.size() > 1 ? &outputs[1]
                                                       : nullptr;
  if (given != nullptr && given->shape.rank() + 1 == statistics.shape.rank()) {
    return broken(
        ErrorCode::unsupported,
        kind,
        "the recording is of version 3 or older, whose attention kept one number of a row "
        "for its gradient, where it now keeps two: record it again");
  }
  if (!is_backward) {
    HEARTH_TRY_STATUS(require_spec(kind, outputs[0], y));
    return given != nullptr ? require_spec(kind, *given, statistics) : Status();
  }
  HEARTH_TRY_STATUS(require_spec(kind, inputs[0], y));
  HEARTH_TRY_STATUS(require_spec(kind, operands[3], y));
  HEARTH_TRY_STATUS(require_spec(kind, *given, statistics));
  for (std::size_t i = 0; i < 3; ++i) {
    HEARTH_TRY_STATUS(require_spec(kind, outputs[i], operands[i]));
  }
  return {};
}

Status check_scatter(const OpView& op, Specs inputs, const TensorSpec& result) {
  const OpKind kind = op.kind();
  const auto attributes = op.attributes<ScatterAttributes>();
  HEARTH_TRY_STATUS(check_axis(kind, attributes.axis, inputs[0].shape));
  const auto mode = static_cast<std::int32_t>(attributes.mode);
  if (mode < 0 || mode >= kScatterModeCount) {
    return bad_attribute(kind, fmt::format("there is no mode {}", mode));
  }
  HEARTH_TRY(const TensorSpec wanted, scatter(inputs[0], inputs[1], inputs[2], attributes));
  return require_spec(kind, result, wanted);
}

Status check_indexing(const OpView& op, Specs inputs, const TensorSpec& result) {
  const OpKind kind = op.kind();
  if (kind == OpKind::scatter) {
    return check_scatter(op, inputs, result);
  }
  const auto attributes = op.attributes<AxisAttributes>();
  const bool is_pick = kind == OpKind::gather || kind == OpKind::index_select;
  const Shape& whole = is_pick ? inputs[0].shape : result.shape;
  HEARTH_TRY_STATUS(check_axis(kind, attributes.axis, whole));
  if (attributes.keep_dims != 0) {
    return bad_attribute(kind, "it has no axis to keep");
  }
  if (is_pick) {
    const auto rule = kind == OpKind::gather ? gather : index_select;
    HEARTH_TRY(const TensorSpec wanted, rule(inputs[0], inputs[1], attributes.axis));
    return require_spec(kind, result, wanted);
  }
  const auto rule = kind == OpKind::scatter_add ? scatter_add : index_add;
  HEARTH_TRY(const TensorSpec wanted, rule(inputs[0], inputs[1], whole, attributes.axis));
  return require_spec(kind, result, wanted);
}

Status check_optimizer(const OpView& op, Specs inputs, Specs outputs) {
  HEARTH_TRY_STATUS(result_dtype(op.kind(), inputs).status());
  for (const Specs side : {inputs.subspan(1), outputs}) {
    for (const TensorSpec& spec : side) {
      HEARTH_TRY_STATUS(require_spec(op.kind(), spec, inputs[0]));
    }
  }
  return {};
}

// Returns the size of an expression's parameters, after the operands in the blob.
Result<std::size_t> parameter_size_bytes(const OpRecord& record) {
  if (record.kind != OpKind::expression) {
    return std::size_t{0};
  }
  const std::uint32_t count =
      OpView(record, nullptr).attributes<ExpressionAttributes>().parameter_count;
  if (count > kMostExpressionParameters) {
    return broken(
        ErrorCode::invalid_argument,
        record.kind,
        fmt::format(
            "has {} parameters, at most {} are possible", count, kMostExpressionParameters));
  }
  return count * sizeof(std::uint64_t);
}

Status check_expression(const OpView& op,
                        Specs inputs,
                        Specs outputs,
                        const Expression* expression) {
  if (expression == nullptr) {
    return bad_attribute(op.kind(), "there is no such expression");
  }
  const auto attributes = op.attributes<ExpressionAttributes>();
  const KernelIR& kernel = expression->kernel;
  if (attributes.parameter_count != kernel.parameters.size() ||
      attributes.flops != expression->flops || attributes.row_axes != 0 ||
      outputs.size() != kernel.outputs.size()) {
    return bad_attribute(op.kind(),
                         "its parameters or results are not those of " + expression->name);
  }
  HEARTH_TRY(const Shape shape, expression_shape(*expression, inputs));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    HEARTH_TRY_STATUS(require_spec(op.kind(), outputs[i], {kernel.outputs[i].dtype, shape}));
  }
  if (is_update(op.record())) {  // each result replaces an input
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      HEARTH_TRY_STATUS(require_spec(op.kind(), inputs[i == 0 ? 0 : i + 1], outputs[i]));
    }
  }
  return {};
}

}  // namespace

std::size_t blob_size_bytes(OpKind kind, int operand_count) noexcept {
  const OpInfo& info = op_info(kind);
  if (info.op_class == OpClass::lifetime) {
    return 0;
  }
  const int extra = operand_count > kInlineOperands ? operand_count - kInlineOperands : 0;
  const std::size_t attributes =
      info.attribute_size_bytes > sizeof(OpRecord::immediate) ? info.attribute_size_bytes : 0;
  return static_cast<std::size_t>(extra) * sizeof(Operand) + attributes;
}

Status check_form(const OpRecord& record, std::size_t blob_size_bytes) {
  if (static_cast<int>(record.kind) >= kOpKindCount) {
    return Error{.code = ErrorCode::invalid_argument,
                 .text = fmt::format("there is no op kind {}", static_cast<int>(record.kind))};
  }
  const bool takes_scalar = op_info(record.kind).op_class == OpClass::binary;
  const unsigned scalars = record.flags & static_cast<unsigned>(kScalarFlags);
  const unsigned plain = record.flags & ((1U << kCalledAsShift) - 1U);
  if ((plain & ~static_cast<unsigned>(kKnownFlags)) != 0 || scalars == kScalarFlags ||
      (scalars != 0 && !takes_scalar) ||
      ((record.flags & kUpdateFlag) != 0 && record.kind != OpKind::expression) ||
      ((record.flags & kFrozenFlag) != 0 && record.kind != OpKind::publish) ||
      ((record.flags & kRecomputesFlag) != 0 && !may_run_again(record.kind)) ||
      !name_fits(record)) {
    return bad_attribute(record.kind, fmt::format("the flags {:#x} do not fit it", record.flags));
  }
  const Counts counts = counts_of(record);
  if (record.input_count < counts.least_inputs || record.input_count > counts.most_inputs) {
    return bad_attribute(record.kind,
                         fmt::format("takes {} inputs, was given {}",
                                     range_text(counts.least_inputs, counts.most_inputs),
                                     record.input_count));
  }
  if (record.output_count < counts.least_outputs || record.output_count > counts.most_outputs) {
    return bad_attribute(record.kind,
                         fmt::format("has {} results, was given {}",
                                     range_text(counts.least_outputs, counts.most_outputs),
                                     record.output_count));
  }
  HEARTH_TRY(const std::size_t parameters, parameter_size_bytes(record));
  const std::size_t wanted =
      rules::blob_size_bytes(record.kind, record.operand_count()) + parameters;
  if (blob_size_bytes != wanted || record.blob_size_bytes != wanted) {
    return bad_attribute(
        record.kind,
        fmt::format("its blob has {} bytes, the record states {}, its operands need {}",
                    blob_size_bytes,
                    record.blob_size_bytes,
                    wanted));
  }
  return {};
}

Status check_record(const OpView& op, Specs inputs, Specs outputs, const Expression* expression) {
  switch (op_info(op.kind()).op_class) {
    case OpClass::creation:
      return check_creation(op, outputs[0]);
    case OpClass::unary:
      return check_unary(op, inputs, outputs[0]);
    case OpClass::binary:
      return check_binary(op, inputs, outputs[0]);
    case OpClass::ternary: {
      HEARTH_TRY(const TensorSpec wanted, where(inputs[0], inputs[1], inputs[2]));
      return require_spec(op.kind(), outputs[0], wanted);
    }
    case OpClass::view:
      return check_view(op, inputs[0], outputs[0]);
    case OpClass::movement:
      return check_movement(op, inputs, outputs[0]);
    case OpClass::reduction:
      return check_reduction(op, inputs, outputs[0]);
    case OpClass::contraction:
      return check_contraction(op, inputs, outputs[0]);
    case OpClass::pooling:
      return check_pooling(op, inputs, outputs);
    case OpClass::row:
      return check_row(op, inputs, outputs);
    case OpClass::expression:
      return check_expression(op, inputs, outputs, expression);
    case OpClass::custom:
      return bad_attribute(op.kind(), "its code is no part of a trace");
    case OpClass::indexing:
      return check_indexing(op, inputs, outputs[0]);
    case OpClass::attention:
      return check_attention(op, inputs, outputs);
    case OpClass::optimizer:
      return check_optimizer(op, inputs, outputs);
    case OpClass::lifetime:
    default:
      return op.kind() == OpKind::lend ? require_spec(op.kind(), outputs[0], inputs[0]) : Status();
  }
}

}  // namespace hearth::rules
