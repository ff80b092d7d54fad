// Elementary functions of other ones, and the tests and replacements of NaN and infinity.
#include <hearth/runtime/ops.hpp>

#include "op_operand.hpp"
#include "op_parts.hpp"
#include "op_promotion.hpp"

#include <hearth/runtime/tensor_access.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>
#include <utility>

namespace hearth {

DType detail::common_float(OpKind kind, std::span<const Arg> operands) {
  const Arg* first = nullptr;
  Shape shape;
  for (const Arg& operand : operands) {
    if (operand.is_scalar()) {
      continue;
    }
    const Shape& own = detail::operand(kind, operand).layout->shape;
    const Result<Shape> both = broadcast(shape, own);
    if (!both.has_value()) {
      const TensorSpec other = spec_of(kind, *first);
      throw_op_error(ErrorCode::shape_mismatch,
                     kind,
                     fmt::format("shapes do not broadcast: {} and {}",
                                 describe(other.dtype, other.shape),
                                 describe(operand.tensor().dtype(), own)),
                     operand.location(),
                     operands);
    }
    shape = both.value();
    first = first == nullptr || own.rank() > 0 ? &operand : first;
  }
  if (first == nullptr) {
    throw_op_error(
        ErrorCode::invalid_argument, kind, "all operands are numbers", operands[0].location());
  }
  const DType dtype = common_type(kind, operands);
  if (!is_float(dtype)) {
    throw_op_error(ErrorCode::dtype_mismatch,
                   kind,
                   fmt::format("takes floats, not {}", name(dtype)),
                   first->location(),
                   operands);
  }
  return dtype;
}

namespace {

using detail::At;
using detail::computed_wide;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Beyond it 1 is too small beside x², in every type; x² itself is finite in f32.
constexpr double kManyTimesOne = 0x1p28;

// log(x) + log(2), for x beyond kManyTimesOne; others become it, which keeps gradients finite.
Tensor log_of_twice(const Tensor& x, const Tensor& is_large, const At& at) {
  Tensor large = where(at(is_large), at(x), at(kManyTimesOne));
  return add(at(log(at(std::move(large)))), at(std::numbers::ln2));
}

void require_reals(const Arg& x) {
  const TensorImpl& impl = detail::operand(OpKind::abs, x);
  if (!is_float(impl.dtype)) {
    detail::throw_op_error(
        ErrorCode::dtype_mismatch,
        OpKind::abs,
        fmt::format("takes floats, not {}", describe(impl.dtype, impl.layout->shape)),
        x);
  }
}

}  // namespace

Tensor log2(Arg x) {
  return detail::named_as("log2", [&] {
    return computed_wide(x, [](Tensor value, const At& at) {
      return mul(at(log(at(std::move(value)))), at(std::numbers::log2e));
    });
  });
}
Tensor log10(Arg x) {
  return detail::named_as("log10", [&] {
    return computed_wide(x, [](Tensor value, const At& at) {
      return mul(at(log(at(std::move(value)))), at(std::numbers::log10e));
    });
  });
}

Tensor tan(Arg x) {
  return detail::named_as("tan", [&] {
    return computed_wide(x, [](const Tensor& value, const At& at) {
      return div(at(sin(at(value))), at(cos(at(value))));
    });
  });
}

// With u = expm1(x/2) and v = expm1(-x/2): (u - v)·(1 + (u + v)/2). It is exact near 0, and
// overflows only with its result.
Tensor sinh(Arg x) {
  return detail::named_as("sinh", [&] {
    return computed_wide(x, [](Tensor value, const At& at) {
      const Tensor half = mul(at(std::move(value)), at(0.5));
      const Tensor u = expm1(at(half));
      const Tensor v = expm1(at(neg(at(half))));
      Tensor mean_of_both = mul(at(add(at(u), at(v))), at(0.5));
      return mul(at(sub(at(u), at(v))), at(add(at(std::move(mean_of_both)), at(1.0))));
    });
  });
}

// exp(x/2)²/2 + exp(-x/2)²/2, which overflows only with its result.
Tensor cosh(Arg x) {
  return detail::named_as("cosh", [&] {
    return computed_wide(x, [](Tensor value, const At& at) {
      const Tensor half = mul(at(std::move(value)), at(0.5));
      const Tensor up = exp(at(half));
      const Tensor down = exp(at(neg(at(half))));
      Tensor up_part = mul(at(mul(at(up), at(0.5))), at(up));
      Tensor down_part = mul(at(mul(at(down), at(0.5))), at(down));
      return add(at(std::move(up_part)), at(std::move(down_part)));
    });
  });
}

// log1p(a + a²/(1 + √(a² + 1))) of a = |x|, with the sign of x.
Tensor asinh(Arg x) {
  return detail::named_as("asinh", [&] {
    return computed_wide(x, [](const Tensor& value, const At& at) {
      const Tensor is_below = less(at(value), at(0.0));
      const Tensor size = where(at(is_below), at(neg(at(value))), at(value));
      const Tensor is_large = greater(at(size), at(kManyTimesOne));
      const Tensor small = where(at(is_large), at(1.0), at(size));
      const Tensor squares = square(at(small));
      Tensor root = sqrt(at(add(at(squares), at(1.0))));
      Tensor rest = div(at(squares), at(add(at(std::move(root)), at(1.0))));
      Tensor near = log1p(at(add(at(small), at(std::move(rest)))));
      const Tensor result =
          where(at(is_large), at(log_of_twice(size, is_large, at)), at(std::move(near)));
      return where(at(is_below), at(neg(at(result))), at(result));
    });
  });
}

// log1p(t + √t·√(t + 2)) of t = x - 1. Two roots, since the gradient of one of their product is no
// number at t = 0.
Tensor acosh(Arg x) {
  return detail::named_as("acosh", [&] {
    return computed_wide(x, [](const Tensor& value, const At& at) {
      const Tensor is_large = greater(at(value), at(kManyTimesOne));
      const Tensor t = sub(at(where(at(is_large), at(2.0), at(value))), at(1.0));
      Tensor root = mul(at(sqrt(at(t))), at(sqrt(at(add(at(t), at(2.0))))));
      Tensor near = log1p(at(add(at(t), at(std::move(root)))));
      Tensor result =
          where(at(is_large), at(log_of_twice(value, is_large, at)), at(std::move(near)));
      const double nan = std::numeric_limits<double>::quiet_NaN();
      return where(at(less(at(value), at(1.0))), at(nan), at(std::move(result)));
    });
  });
}

Tensor atanh(Arg x) {
  return detail::named_as("atanh", [&] {
    return computed_wide(x, [](const Tensor& value, const At& at) {
      Tensor difference = sub(at(log1p(at(value))), at(log1p(at(neg(at(value))))));
      return mul(at(std::move(difference)), at(0.5));
    });
  });
}

// The larger one + log1p(exp(-|a - b|)). Equal operands have the difference 0, also infinite ones.
Tensor logaddexp(Arg a, Arg b) {
  return detail::named_as("logaddexp", [&] {
    const std::array inputs{a, b};
    const DType dtype = detail::common_float(OpKind::max, inputs);
    const At at(a.location());
    const detail::PromotedArg left(detail::shared_operand(a), compute_type(dtype));
    const detail::PromotedArg right(detail::shared_operand(b), compute_type(dtype));
    const Arg x = detail::shared_operand(left.arg());
    const Arg y = detail::shared_operand(right.arg());
    Tensor difference = where(at(equal(x, y)), at(0.0), at(sub(x, y)));
    Tensor rest = log1p(at(exp(at(neg(at(abs(at(std::move(difference)))))))));
    Tensor result = add(at(maximum(x, y)), at(std::move(rest)));
    return cast(at(std::move(result)), dtype);
  });
}

// Begins at the nearer end, so that both ends are exact.
Tensor lerp(Arg start, Arg end, Arg weight) {
  return detail::named_as("lerp", [&] {
    if (start.is_scalar() && end.is_scalar()) {
      detail::throw_op_error(
          ErrorCode::invalid_argument,
          OpKind::add,
          fmt::format("start and end are numbers: {} and {}", start.real(), end.real()),
          start.location());
    }
    const std::array inputs{start, end, weight};
    const DType dtype = detail::common_float(OpKind::add, inputs);
    const At at(start.location());
    const DType inside = compute_type(dtype);
    const detail::PromotedArg first(detail::shared_operand(start), inside);
    const detail::PromotedArg last(detail::shared_operand(end), inside);
    const detail::PromotedArg share(detail::shared_operand(weight), inside);
    const Arg a = detail::shared_operand(first.arg());
    const Arg b = detail::shared_operand(last.arg());
    const Arg w = detail::shared_operand(share.arg());
    const Tensor difference = sub(b, a);
    const auto from_start = [&] { return add(a, at(mul(at(difference), w))); };
    const auto from_end = [&](const Arg& rest) { return sub(b, at(mul(at(difference), rest))); };
    Tensor result;
    if (w.is_scalar()) {
      result = std::abs(w.real()) < 0.5 ? from_start() : from_end(at(1 - w.real()));
    } else {
      Tensor is_near = less(at(abs(w)), at(0.5));
      result = where(at(std::move(is_near)), at(from_start()), at(from_end(at(sub(at(1.0), w)))));
    }
    return cast(at(std::move(result)), dtype);
  });
}

Tensor isnan(Arg x) {
  return detail::named_as("isnan", [&] {
    require_reals(x);
    const Arg value = detail::shared_operand(x);
    return not_equal(value, value);
  });
}
Tensor isinf(Arg x) {
  return detail::named_as("isinf", [&] {
    require_reals(x);
    const At at(x.location());
    return equal(at(abs(x)), at(kInfinity));
  });
}
Tensor isfinite(Arg x) {
  return detail::named_as("isfinite", [&] {
    require_reals(x);
    const At at(x.location());
    return less(at(abs(x)), at(kInfinity));  // NaN compares false
  });
}
Tensor is_finite(Arg x) {
  return detail::named_as("is_finite", [&] { return isfinite(x); });
}

Tensor nan_to_num(Arg x, NanToNumOptions options) {
  return detail::named_as("nan_to_num", [&] {
    require_reals(x);
    const At at(x.location());
    const Tensor value = detail::take(x);
    const double most = largest_value(value.dtype());
    Tensor result = where(at(not_equal(at(value), at(value))), at(options.nan), at(value));
    result = where(at(equal(at(value), at(kInfinity))),
                   at(options.posinf.value_or(most)),
                   at(std::move(result)));
    return where(at(equal(at(value), at(-kInfinity))),
                 at(options.neginf.value_or(-most)),
                 at(std::move(result)));
  });
}

// The difference of infinities is NaN or infinite, so that only equal ones are close.
bool allclose(Arg a, Arg b, AllcloseOptions options) {
  return detail::named_as("allclose", [&] {
    const std::array inputs{a, b};
    const DType dtype = compute_type(detail::common_float(OpKind::equal, inputs));
    if (!(options.rtol >= 0 && options.atol >= 0)) {
      detail::throw_op_error(
          ErrorCode::invalid_argument,
          OpKind::equal,
          fmt::format("a tolerance is 0 or more: rtol {}, atol {}", options.rtol, options.atol),
          a.location());
    }
    const At at(a.location());
    const Device device = (a.is_scalar() ? b : a).tensor().device();
    const auto widened = [&](const Arg& operand) {
      return operand.is_scalar() ? full(device, {}, operand.real(), dtype, at.location())
                                 : cast(detail::shared_operand(operand), dtype);
    };
    const Tensor x = widened(a);
    const Tensor y = widened(b);
    const Tensor distance = abs(at(sub(at(x), at(y))));
    Tensor allowed = add(at(mul(at(abs(at(y))), at(options.rtol))), at(options.atol));
    Tensor is_near = less_equal(at(distance), at(std::move(allowed)));
    is_near = logical_and(at(std::move(is_near)), at(isfinite(at(distance))));
    Tensor is_close = logical_or(at(equal(at(x), at(y))), at(std::move(is_near)));
    if (options.equal_nan) {
      Tensor are_nan = logical_and(at(isnan(at(x))), at(isnan(at(y))));
      is_close = logical_or(at(std::move(is_close)), at(std::move(are_nan)));
    }
    Tensor is_apart = logical_not(at(std::move(is_close)));
    return sum(at(std::move(is_apart))).item<std::int64_t>(at.location()) == 0;
  });
}

// ---- angles ----

namespace {

// The roots of 1 - x and 1 + x. At an end one of them is 0 and has an infinite slope; the other one
// is finite, and so no product of 0 and infinity appears in the gradients of the angles.
struct Roots {
  Tensor below;
  Tensor above;
};
Roots roots_of(const Tensor& x, SourceLoc loc) {
  Tensor less = sub(Arg(1.0, loc), Arg(x, loc));
  Tensor more = add(Arg(x, loc), Arg(1.0, loc));
  return {sqrt(Arg(std::move(less), loc)), sqrt(Arg(std::move(more), loc))};
}

using Angle = Tensor (*)(const Tensor& x, Roots roots, SourceLoc loc);
Tensor angle_of(std::string_view op, const Arg& x, Angle angle) {
  return detail::named_as(op, [&] {
    const SourceLoc loc = x.location();
    const DType dtype = detail::accepted_operand(OpKind::atan, x).dtype;
    const Tensor wide = detail::wide(x);
    Tensor result = angle(wide, roots_of(wide, loc), loc);
    return cast(Arg(std::move(result), loc), dtype);
  });
}

}  // namespace

Tensor asin(Arg x) {
  return angle_of("asin", x, [](const Tensor& sine, Roots roots, SourceLoc loc) {
    Tensor cosine = mul(Arg(std::move(roots.below), loc), Arg(std::move(roots.above), loc));
    return atan2(Arg(sine, loc), Arg(std::move(cosine), loc));
  });
}

// Twice the half angle, whose tangent is sqrt((1 - x) / (1 + x)).
Tensor acos(Arg x) {
  return angle_of("acos", x, [](const Tensor&, Roots roots, SourceLoc loc) {
    Tensor half = atan2(Arg(std::move(roots.below), loc), Arg(std::move(roots.above), loc));
    return mul(Arg(std::move(half), loc), Arg(2.0, loc));
  });
}

}  // namespace hearth
