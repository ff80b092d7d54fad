#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_submit.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <array>

namespace hearth {
namespace {

DType result_dtype_of(const OpInfo& info, DType operands) noexcept {
  return info.dtype_rule == DtypeRule::comparison ? DType::boolean : operands;
}

Tensor with_scalar(OpKind kind, const Arg& a, const Arg& b) {
  if (a.is_scalar() && b.is_scalar()) [[unlikely]] {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           kind,
                           fmt::format("both operands are numbers: {} and {}", a.real(), b.real()),
                           a.location());
  }
  const bool is_left = a.is_scalar();
  const Arg& tensor = is_left ? b : a;
  const TensorImpl& impl = detail::accepted_operand(kind, tensor);
  const ScalarAttributes scalar = detail::scalar_of(name(kind), is_left ? a : b, impl);
  const RecordFlag flag = is_left ? RecordFlag::scalar_lhs : RecordFlag::scalar_rhs;
  return detail::submit({.kind = kind,
                         .location = tensor.location(),
                         .inputs = {&tensor, 1},
                         .attributes = detail::bytes_of(scalar),
                         .flags = static_cast<std::uint16_t>(flag)},
                        result_dtype_of(op_info(kind), impl.dtype),
                        impl.layout->shape);
}

Tensor binary(OpKind kind, const Arg& a, const Arg& b) {
  if (a.is_scalar() || b.is_scalar()) {
    return with_scalar(kind, a, b);
  }
  const TensorImpl& left = detail::operand(kind, a);
  const TensorImpl& right = detail::operand(kind, b);
  const std::array inputs{a, b};
  const detail::Submission submission{.kind = kind, .location = a.location(), .inputs = inputs};
  // Interned layouts: equal pointers are equal shapes, which need no rule and no copy.
  if (left.layout == right.layout && left.dtype == right.dtype && accepts(kind, left.dtype))
      [[likely]] {
    return detail::submit(
        submission, result_dtype_of(op_info(kind), left.dtype), left.layout->shape);
  }
  const TensorSpec spec = detail::checked(
      rules::binary(kind, {left.dtype, left.layout->shape}, {right.dtype, right.layout->shape}),
      kind,
      std::span<const Arg>(inputs));
  return detail::submit(submission, spec.dtype, spec.shape);
}

// The result takes the name of the left operand, whose memory it may take too.
Tensor& assign(OpKind kind, Tensor& a, const Arg& b) {
  const SourceLoc loc = b.location();
  const Arg target(std::move(a), loc);  // taken only once the op is queued
  const TensorImpl& left = detail::operand(kind, target);
  const PathId path = left.path.load(std::memory_order_acquire);
  if (!b.is_scalar()) {
    const TensorImpl& right = detail::operand(kind, b);
    const std::array inputs{target, b};
    const TensorSpec spec = detail::checked(
        rules::binary(kind, {left.dtype, left.layout->shape}, {right.dtype, right.layout->shape}),
        kind,
        std::span<const Arg>(inputs));
    if (spec.shape != left.layout->shape) {
      detail::throw_op_error(
          ErrorCode::shape_mismatch,
          kind,
          fmt::format("an assignment keeps the shape of its left side: {} would become {} with {}",
                      describe(left.dtype, left.layout->shape),
                      spec.shape.to_string(),
                      describe(right.dtype, right.layout->shape)),
          loc,
          inputs);
    }
  }
  Tensor result = binary(kind, target, b);
  detail::TensorAccess::impl(result)->path.store(path, std::memory_order_release);
  a = std::move(result);
  return a;
}

// where has no immediates: a number becomes a tensor of rank 0, of the other side's type.
Tensor number_tensor(const Arg& number, const Arg& beside) {
  const TensorImpl& impl = detail::operand(OpKind::where, beside);
  const ScalarAttributes scalar = detail::scalar_of(name(OpKind::where), number, impl);
  const detail::Submission submission{.kind = OpKind::fill,
                                      .location = number.location(),
                                      .inputs = {},
                                      .attributes = detail::bytes_of(scalar)};
  return detail::submit_on(beside.tensor().device(), submission, impl.dtype, {});
}

}  // namespace

Tensor add(Arg a, Arg b) {
  return binary(OpKind::add, a, b);
}
Tensor sub(Arg a, Arg b) {
  return binary(OpKind::sub, a, b);
}
Tensor mul(Arg a, Arg b) {
  return binary(OpKind::mul, a, b);
}
Tensor div(Arg a, Arg b) {
  return binary(OpKind::div, a, b);
}
Tensor pow(Arg a, Arg b) {
  return binary(OpKind::pow, a, b);
}
Tensor minimum(Arg a, Arg b) {
  return binary(OpKind::min, a, b);
}
Tensor maximum(Arg a, Arg b) {
  return binary(OpKind::max, a, b);
}
Tensor equal(Arg a, Arg b) {
  return binary(OpKind::equal, a, b);
}
Tensor not_equal(Arg a, Arg b) {
  return binary(OpKind::not_equal, a, b);
}
Tensor less(Arg a, Arg b) {
  return binary(OpKind::less, a, b);
}
Tensor less_equal(Arg a, Arg b) {
  return binary(OpKind::less_equal, a, b);
}
Tensor greater(Arg a, Arg b) {
  return binary(OpKind::greater, a, b);
}
Tensor greater_equal(Arg a, Arg b) {
  return binary(OpKind::greater_equal, a, b);
}

Tensor& operator+=(Tensor& a, Arg b) {
  return assign(OpKind::add, a, b);
}
Tensor& operator-=(Tensor& a, Arg b) {
  return assign(OpKind::sub, a, b);
}
Tensor& operator*=(Tensor& a, Arg b) {
  return assign(OpKind::mul, a, b);
}
Tensor& operator/=(Tensor& a, Arg b) {
  return assign(OpKind::div, a, b);
}

bool all_equal(Arg a, Arg b) {
  const detail::CalledOp called("all_equal");
  const TensorImpl& left = detail::operand(OpKind::equal, a);
  const TensorImpl& right = detail::operand(OpKind::equal, b);
  if (left.dtype != right.dtype || left.layout->shape != right.layout->shape) {
    return false;
  }
  const SourceLoc loc = a.location();
  const Tensor different = cast(Arg(not_equal(a, b), loc), DType::i64);
  return sum(Arg(different, loc)).item<std::int64_t>(loc) == 0;
}

Tensor where(Arg condition, Arg a, Arg b) {
  const SourceLoc location = condition.location();
  if (a.is_scalar() && b.is_scalar()) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           OpKind::where,
                           "both choices are numbers: make one a tensor, or cast the condition",
                           location);
  }
  if (a.is_scalar() || b.is_scalar()) {
    // Checked with a rank-0 stand-in first, so that nothing is queued when the condition does not
    // fit.
    const Arg& beside = a.is_scalar() ? b : a;
    const TensorSpec spec = detail::spec_of(OpKind::where, beside);
    const TensorSpec number{spec.dtype, {}};
    static_cast<void>(detail::operand(OpKind::where, condition));
    const std::array given{condition, a, b};
    static_cast<void>(
        detail::checked(rules::where(detail::spec_of(OpKind::where, condition), spec, number),
                        OpKind::where,
                        std::span<const Arg>(given)));
    Tensor filled = number_tensor(a.is_scalar() ? a : b, beside);
    const Arg filled_arg(std::move(filled), location);
    return a.is_scalar() ? where(condition, filled_arg, b) : where(condition, a, filled_arg);
  }
  const std::array inputs{condition, a, b};
  for (const Arg& arg : inputs) {
    static_cast<void>(detail::operand(OpKind::where, arg));
  }
  const TensorSpec spec = detail::checked(rules::where(detail::spec_of(OpKind::where, condition),
                                                       detail::spec_of(OpKind::where, a),
                                                       detail::spec_of(OpKind::where, b)),
                                          OpKind::where,
                                          std::span<const Arg>(inputs));
  return detail::submit(
      {.kind = OpKind::where, .location = location, .inputs = inputs}, spec.dtype, spec.shape);
}

}  // namespace hearth
