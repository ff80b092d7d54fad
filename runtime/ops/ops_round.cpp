// Rounding, signs, floor division and remainder.
#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"
#include "op_promotion.hpp"
#include "ops_binary.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <array>
#include <utility>

namespace hearth {
namespace {

[[noreturn]] void refuse_bool(OpKind kind, const Arg& x) {
  const TensorImpl& impl = *detail::TensorAccess::impl(x.tensor());
  detail::throw_op_error(
      ErrorCode::dtype_mismatch,
      kind,
      fmt::format("takes numbers, not {}", describe(impl.dtype, impl.layout->shape)),
      x);
}

Tensor whole(OpKind kind, const Arg& x) {
  const TensorImpl& impl = detail::operand(kind, x);
  if (impl.dtype == DType::boolean) {
    refuse_bool(kind, x);
  }
  if (!is_float(impl.dtype)) {
    return detail::take(x);
  }
  return detail::submit(
      {.kind = kind, .location = x.location(), .inputs = {&x, 1}}, impl.dtype, impl.layout->shape);
}

/// The result of a floor division: quotient·b + rest = a.
struct Division {
  Tensor quotient;
  Tensor rest;
};

// Returns where the rest has another sign than b, so that it must be moved by b.
Tensor is_on_other_side(const Tensor& rest, const Arg& b, SourceLoc loc) {
  if (b.is_scalar()) {
    return b.real() < 0 ? greater(Arg(rest, loc), Arg(0, loc)) : less(Arg(rest, loc), Arg(0, loc));
  }
  Tensor signs_differ =
      not_equal(Arg(less(Arg(rest, loc), Arg(0, loc)), loc), Arg(less(b, Arg(0, loc)), loc));
  Tensor is_left = not_equal(Arg(rest, loc), Arg(0, loc));
  return logical_and(Arg(std::move(signs_differ), loc), Arg(std::move(is_left), loc));
}

// div truncates; where the rest has the wrong sign, the quotient is reduced by 1.
Division divide_integers(CalledAs called, const Arg& a, const Arg& b, DType dtype, SourceLoc loc) {
  Tensor quotient = detail::div_as(called, a, b);
  Tensor product = mul(Arg(quotient, loc), b);
  Tensor rest = sub(a, Arg(std::move(product), loc));
  if (dtype == DType::u8) {
    return {std::move(quotient), std::move(rest)};
  }
  const Tensor moves = cast(Arg(is_on_other_side(rest, b, loc), loc), dtype);
  Tensor moved = mul(Arg(moves, loc), b);
  return {sub(Arg(std::move(quotient), loc), Arg(moves, loc)),
          add(Arg(std::move(rest), loc), Arg(std::move(moved), loc))};
}

// Computed in f64: a 32-bit b times a quotient of up to 28 bits is exact. A quotient that was
// rounded up to an integer leaves a rest of the wrong sign.
Division divide_reals(const Arg& a, const Arg& b, SourceLoc loc) {
  Tensor exact = div(a, b);
  const Tensor floored = floor(Arg(std::move(exact), loc));
  Tensor product = mul(Arg(floored, loc), b);
  Tensor difference = sub(a, Arg(std::move(product), loc));
  // 5 by infinity leaves 5; this avoids 0·infinity.
  const Tensor is_less = equal(Arg(floored, loc), Arg(0, loc));
  Tensor rest = where(Arg(is_less, loc), a, Arg(std::move(difference), loc));
  const Tensor moves = is_on_other_side(rest, b, loc);
  Tensor moved = add(Arg(rest, loc), b);
  Tensor one_less = sub(Arg(floored, loc), Arg(1, loc));
  return {where(Arg(moves, loc), Arg(std::move(one_less), loc), Arg(floored, loc)),
          where(Arg(moves, loc), Arg(std::move(moved), loc), Arg(std::move(rest), loc))};
}

// A number rounded to the type; f16 and bf16 compute in f32.
Arg rounded_number(const Arg& number, DType dtype) {
  if (!number.is_scalar() || dtype == DType::f64) {
    return detail::shared_operand(number);
  }
  return Arg(static_cast<double>(static_cast<float>(number.real())), number.location());
}

// Phases: check the rule of a binary op; find the common type; divide in it, or in f64.
Division divide(CalledAs called, const Arg& a, const Arg& b, DType* dtype) {
  constexpr OpKind kKind = OpKind::div;
  const std::array inputs{a, b};
  for (const Arg& input : inputs) {
    if (!input.is_scalar()) {
      static_cast<void>(detail::operand(kKind, input));
    }
  }
  if (a.is_scalar() && b.is_scalar()) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           kKind,
                           fmt::format("both operands are numbers: {} and {}", a.real(), b.real()),
                           a.location());
  }
  *dtype = detail::common_type(kKind, inputs);
  if (*dtype == DType::boolean) {
    refuse_bool(kKind, a);
  }
  const SourceLoc loc = a.is_scalar() ? b.location() : a.location();
  if (a.is_scalar() || b.is_scalar()) {
    const Arg& tensor = a.is_scalar() ? b : a;
    static_cast<void>(detail::scalar_of(
        name(kKind), a.is_scalar() ? a : b, *detail::TensorAccess::impl(tensor.tensor()), *dtype));
  } else {
    const TensorSpec left = detail::spec_of(kKind, a);
    const TensorSpec right = detail::spec_of(kKind, b);
    static_cast<void>(detail::checked(
        rules::binary(kKind, {*dtype, left.shape}, {*dtype, right.shape}), kKind, loc, inputs));
  }
  if (!is_float(*dtype)) {
    const detail::PromotedArg left(detail::shared_operand(a), *dtype);
    const detail::PromotedArg right(detail::shared_operand(b), *dtype);
    return divide_integers(called,
                           detail::shared_operand(left.arg()),
                           detail::shared_operand(right.arg()),
                           *dtype,
                           loc);
  }
  const detail::PromotedArg left(rounded_number(a, *dtype), DType::f64);
  const detail::PromotedArg right(rounded_number(b, *dtype), DType::f64);
  return divide_reals(detail::shared_operand(left.arg()), detail::shared_operand(right.arg()), loc);
}

}  // namespace

Tensor floor(Arg x) {
  return whole(OpKind::floor, x);
}
Tensor ceil(Arg x) {
  return whole(OpKind::ceil, x);
}
Tensor round(Arg x) {
  return whole(OpKind::round, x);
}
Tensor trunc(Arg x) {
  return whole(OpKind::trunc, x);
}

Tensor sign(Arg x) {
  return detail::named_as("sign", [&] {
    const DType dtype = detail::operand(OpKind::greater, x).dtype;
    if (dtype == DType::boolean) {
      refuse_bool(OpKind::greater, x);
    }
    const SourceLoc loc = x.location();
    const Arg value = detail::shared_operand(x);
    Tensor above = cast(Arg(greater(value, Arg(0, loc)), loc), dtype);
    if (dtype == DType::u8) {
      return above;
    }
    Tensor below = cast(Arg(less(value, Arg(0, loc)), loc), dtype);
    return sub(Arg(std::move(above), loc), Arg(std::move(below), loc));
  });
}

Tensor floor_divide(Arg a, Arg b) {
  return detail::named_as("floor_divide", [&] {
    DType dtype = DType::f32;
    Tensor quotient = divide(CalledAs::floor_divide, a, b, &dtype).quotient;
    return cast(Arg(std::move(quotient), a.location()), dtype);
  });
}
Tensor remainder(Arg a, Arg b) {
  return detail::named_as("remainder", [&] {
    DType dtype = DType::f32;
    Tensor rest = divide(CalledAs::remainder, a, b, &dtype).rest;
    return cast(Arg(std::move(rest), a.location()), dtype);
  });
}

}  // namespace hearth
