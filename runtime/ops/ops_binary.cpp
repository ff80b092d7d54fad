#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_promotion.hpp"
#include "op_submit.hpp"
#include "ops_binary.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

DType result_dtype_of(const OpInfo& info, DType operands) noexcept {
  return info.dtype_rule == DtypeRule::comparison ? DType::boolean : operands;
}

Tensor binary(OpKind kind, const Arg& a, const Arg& b, CalledAs called = CalledAs::itself);

Tensor with_scalar(OpKind kind, const Arg& a, const Arg& b, CalledAs called) {
  if (a.is_scalar() && b.is_scalar()) [[unlikely]] {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           kind,
                           fmt::format("both operands are numbers: {} and {}", a.real(), b.real()),
                           a.location());
  }
  const bool is_left = a.is_scalar();
  const Arg& tensor = is_left ? b : a;
  static_cast<void>(detail::operand(kind, tensor));
  const std::array operands{a, b};
  const DType common = detail::common_type(kind, operands);
  if (common != detail::TensorAccess::impl(tensor.tensor())->dtype && accepts(kind, common))
      [[unlikely]] {
    const detail::PromotedArg promoted(tensor, common);
    return is_left ? with_scalar(kind, a, promoted.arg(), called)
                   : with_scalar(kind, promoted.arg(), b, called);
  }
  const TensorImpl& impl = detail::accepted_operand(kind, tensor);
  const ScalarAttributes scalar = detail::scalar_of(name(kind), is_left ? a : b, impl, impl.dtype);
  const RecordFlag flag = is_left ? RecordFlag::scalar_lhs : RecordFlag::scalar_rhs;
  return detail::submit(
      {.kind = kind,
       .location = tensor.location(),
       .inputs = {&tensor, 1},
       .attributes = detail::bytes_of(scalar),
       .flags = static_cast<std::uint16_t>(static_cast<std::uint16_t>(flag) | flags_of(called))},
      result_dtype_of(op_info(kind), impl.dtype),
      impl.layout->shape);
}

// Two tensors of different types: checks the rule in their common type first and then casts, so
// that an error queues nothing.
[[gnu::noinline]] Tensor mixed(OpKind kind, const Arg& a, const Arg& b, CalledAs called) {
  const std::array inputs{a, b};
  const TensorSpec left = detail::spec_of(kind, a);
  const TensorSpec right = detail::spec_of(kind, b);
  const DType common = detail::common_type(kind, inputs);
  if (!broadcast(left.shape, right.shape).has_value()) {
    detail::throw_op_error(ErrorCode::shape_mismatch,
                           kind,
                           fmt::format("shapes do not broadcast: lhs {}, rhs {}",
                                       describe(left.dtype, left.shape),
                                       describe(right.dtype, right.shape)),
                           a.location(),
                           inputs);
  }
  static_cast<void>(
      detail::checked(rules::binary(kind, {common, left.shape}, {common, right.shape}),
                      kind,
                      std::span<const Arg>(inputs)));
  const detail::PromotedArg lhs(a, common);
  const detail::PromotedArg rhs(b, common);
  return binary(kind, lhs.arg(), rhs.arg(), called);
}

Tensor binary(OpKind kind, const Arg& a, const Arg& b, CalledAs called) {
  if (a.is_scalar() || b.is_scalar()) {
    return with_scalar(kind, a, b, called);
  }
  const TensorImpl& left = detail::operand(kind, a);
  const TensorImpl& right = detail::operand(kind, b);
  const std::array inputs{a, b};
  if (left.dtype != right.dtype) [[unlikely]] {
    return mixed(kind, a, b, called);
  }
  const detail::Submission submission{
      .kind = kind, .location = a.location(), .inputs = inputs, .flags = flags_of(called)};
  // Layouts are interned: equal pointers mean equal shapes, which need no rule and no copy.
  if (left.layout == right.layout && accepts(kind, left.dtype)) [[likely]] {
    return detail::submit(
        submission, result_dtype_of(op_info(kind), left.dtype), left.layout->shape);
  }
  const TensorSpec spec = detail::checked(
      rules::binary(kind, {left.dtype, left.layout->shape}, {right.dtype, right.layout->shape}),
      kind,
      std::span<const Arg>(inputs));
  return detail::submit(submission, spec.dtype, spec.shape);
}

[[noreturn]] void refuse_assignment(OpKind kind,
                                    ErrorCode code,
                                    std::string_view kept,
                                    std::string_view changed,
                                    const Arg& target,
                                    const Arg& b) {
  const std::array inputs{target, b};
  const TensorSpec left = detail::spec_of(kind, target);
  std::string beside =
      b.is_integer() ? fmt::format("{}", b.integer()) : fmt::format("{}", b.real());
  if (!b.is_scalar()) {
    const TensorSpec right = detail::spec_of(kind, b);
    beside = describe(right.dtype, right.shape);
  }
  detail::throw_op_error(
      code,
      kind,
      fmt::format("an assignment keeps the {} of its left side: {} would become {} with {}",
                  kept,
                  describe(left.dtype, left.shape),
                  changed,
                  beside),
      b.location(),
      std::span(inputs).first(b.is_scalar() ? 1 : 2));
}

// Refuses an implicit change of shape or kind of type, such as integers to floats.
void check_assignment(OpKind kind, const Arg& target, const Arg& b) {
  const TensorImpl& left = detail::operand(kind, target);
  if (!b.is_scalar()) {
    const Result<Shape> both =
        broadcast(left.layout->shape, detail::operand(kind, b).layout->shape);
    if (both.has_value() && both.value() != left.layout->shape) {
      refuse_assignment(
          kind, ErrorCode::shape_mismatch, "shape", both.value().to_string(), target, b);
    }
  }
  const std::array operands{target, b};
  const DType common = detail::common_type(kind, operands);
  if (is_float(common) != is_float(left.dtype) || is_integer(common) != is_integer(left.dtype)) {
    refuse_assignment(kind, ErrorCode::dtype_mismatch, "kind of type", name(common), target, b);
  }
}

// The result takes the path and the type of the left operand, and possibly its memory.
Tensor& assign(OpKind kind, Tensor& a, const Arg& b) {
  const SourceLoc loc = b.location();
  const Arg target(std::move(a), loc);  // moved from only once the op is queued
  const TensorImpl& left = detail::operand(kind, target);
  const PathId path = left.path.load(std::memory_order_acquire);
  const DType dtype = left.dtype;
  check_assignment(kind, target, b);
  Tensor result = binary(kind, target, b);
  result = cast(Arg(std::move(result), loc), dtype);
  detail::TensorAccess::impl(result)->path.store(path, std::memory_order_release);
  a = std::move(result);
  return a;
}

}  // namespace

Tensor detail::number_tensor(OpKind kind, const Arg& number, const Arg& beside, DType dtype) {
  const ScalarAttributes scalar =
      scalar_of(name(kind), number, *TensorAccess::impl(beside.tensor()), dtype);
  const Submission submission{.kind = OpKind::fill,
                              .location = number.location(),
                              .inputs = {},
                              .attributes = bytes_of(scalar)};
  return submit_on(beside.tensor().device(), submission, dtype, {});
}

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
Tensor detail::div_as(CalledAs called, const Arg& a, const Arg& b) {
  return binary(OpKind::div, a, b, called);
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
Tensor atan2(Arg y, Arg x) {
  return binary(OpKind::atan2, y, x);
}
Tensor bitwise_and(Arg a, Arg b) {
  return binary(OpKind::bitwise_and, a, b);
}
Tensor bitwise_or(Arg a, Arg b) {
  return binary(OpKind::bitwise_or, a, b);
}
Tensor bitwise_xor(Arg a, Arg b) {
  return binary(OpKind::bitwise_xor, a, b);
}
Tensor shift_left(Arg a, Arg b) {
  return binary(OpKind::shift_left, a, b);
}
Tensor shift_right(Arg a, Arg b) {
  return binary(OpKind::shift_right, a, b);
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
  return detail::named_as("all_equal", [&] {
    const TensorImpl& left = detail::operand(OpKind::equal, a);
    const TensorImpl& right = detail::operand(OpKind::equal, b);
    if (left.dtype != right.dtype || left.layout->shape != right.layout->shape) {
      return false;
    }
    const SourceLoc loc = a.location();
    Tensor different = not_equal(a, b);
    return sum(Arg(std::move(different), loc)).item<std::int64_t>(loc) == 0;
  });
}

Tensor where(Arg condition, Arg a, Arg b) {
  const SourceLoc location = condition.location();
  if (a.is_scalar() && b.is_scalar()) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           OpKind::where,
                           "both choices are numbers: make one a tensor, or cast the condition",
                           location);
  }
  const std::array inputs{condition, a, b};
  std::array<TensorSpec, 3> specs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i == 0 || !inputs[i].is_scalar()) {
      static_cast<void>(detail::operand(OpKind::where, inputs[i]));
      specs[i] = detail::spec_of(OpKind::where, inputs[i]);
    }
  }
  // Checked in the common type of both choices, with a number as a tensor of rank 0, so that an
  // error queues nothing.
  const DType common = detail::common_type(OpKind::where, std::span(inputs).subspan(1));
  specs[1].dtype = common;
  specs[2].dtype = common;
  const TensorSpec spec = detail::checked(
      rules::where(specs[0], specs[1], specs[2]), OpKind::where, std::span<const Arg>(inputs));
  if (a.is_scalar() || b.is_scalar()) {
    Tensor filled =
        detail::number_tensor(OpKind::where, a.is_scalar() ? a : b, a.is_scalar() ? b : a, common);
    const Arg filled_arg(std::move(filled), location);
    return a.is_scalar() ? where(condition, filled_arg, b) : where(condition, a, filled_arg);
  }
  const detail::PromotedArg left(a, common);
  const detail::PromotedArg right(b, common);
  const std::array operands{condition, left.arg(), right.arg()};
  return detail::submit(
      {.kind = OpKind::where, .location = location, .inputs = operands}, spec.dtype, spec.shape);
}

}  // namespace hearth
