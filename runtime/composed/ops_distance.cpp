// Norms and distances. No slope of a root is taken at 0: a norm of zeros has the gradient 0.
#include <hearth/runtime/distance_ops.hpp>

#include "runtime/composed/distances.hpp"
#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"
#include "runtime/ops/op_promotion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace hearth {

using detail::At;

void detail::require_power(double p, const Arg& x) {
  if (!(p > 0)) {
    throw_op_error(
        ErrorCode::invalid_argument, OpKind::pow, fmt::format("p {} is not above 0", p), x);
  }
}

namespace {

constexpr OpKind kDistanceKind = OpKind::reduce_mean;

// x^power of values that are not negative; 0, with the gradient 0, where x is 0.
Tensor safe_power(const Tensor& x, double power, const At& at) {
  const Tensor is_zero = equal(at(x), at(0.0));
  const Tensor safe = where(at(is_zero), at(1.0), at(x));
  Tensor raised = power == 0.5 ? sqrt(at(safe)) : pow(at(safe), at(power));
  return where(at(is_zero), at(0.0), at(std::move(raised)));
}

}  // namespace

Tensor detail::norm_of(
    const Tensor& x, double p, const Axes& axes, ReduceOptions options, const At& at) {
  if (p == 2) {
    return safe_power(sum(at(square(at(x))), axes, options), 0.5, at);
  }
  const Tensor size = abs(at(x));
  if (p == 1) {
    return sum(at(size), axes, options);
  }
  if (std::isinf(p)) {
    return max(at(size), axes, options);
  }
  Tensor total = sum(at(safe_power(size, p, at)), axes, options);
  return safe_power(total, 1 / p, at);
}

namespace {

// Distances of all pairs of rows as |a|² + |b|² - 2·a·b, not below 0.
Tensor product_distances(const Tensor& a, const Tensor& b, const At& at) {
  const auto squares = [&](const Tensor& x) {
    return sum(at(square(at(x))), -1, {.keep_dims = true});
  };
  const Tensor both = add(at(squares(a)), at(transpose(at(squares(b)))));
  const Tensor product = matmul(at(a), at(transpose(at(b))));
  const Tensor squared = sub(at(both), at(mul(at(product), at(2.0))));
  return safe_power(maximum(at(squared), at(0.0)), 0.5, at);
}

// Checks rows [..., n, d] and [..., m, d], and returns their common type.
DType checked_rows(const Arg& a, const Arg& b, const CdistOptions& options) {
  const TensorSpec left = detail::spec_of(kDistanceKind, a);
  const TensorSpec right = detail::spec_of(kDistanceKind, b);
  const std::array inputs{a, b};
  const int rank_a = left.shape.rank();
  const int rank_b = right.shape.rank();
  bool fits_rows = rank_a >= 2 && rank_b >= 2 && left.shape[-1] == right.shape[-1];
  if (fits_rows) {
    fits_rows = broadcast(Shape(left.shape.dims().first(static_cast<std::size_t>(rank_a - 2))),
                          Shape(right.shape.dims().first(static_cast<std::size_t>(rank_b - 2))))
                    .has_value();
  }
  fits_rows = fits_rows && std::max(rank_a, rank_b) < kMaxRank;
  if (!fits_rows) {
    detail::throw_op_error(ErrorCode::shape_mismatch,
                           kDistanceKind,
                           fmt::format("needs rows [..., n, d] and [..., m, d]: a {}, b {}",
                                       describe(left.dtype, left.shape),
                                       describe(right.dtype, right.shape)),
                           a.location(),
                           inputs);
  }
  detail::require_power(options.p, a);
  if (options.mode == CdistMode::products && options.p != 2) {
    detail::throw_op_error(ErrorCode::invalid_argument,
                           kDistanceKind,
                           fmt::format("products give distances of p 2, not {}", options.p),
                           a);
  }
  if (!is_float(left.dtype) || !is_float(right.dtype)) {
    detail::throw_op_error(
        ErrorCode::dtype_mismatch,
        kDistanceKind,
        fmt::format("takes floats, not {} and {}", name(left.dtype), name(right.dtype)),
        a.location(),
        inputs);
  }
  return detail::common_type(kDistanceKind, inputs);
}

// Whether the options or the sizes choose products.
bool has_products(const Shape& a, const Shape& b, const CdistOptions& options) {
  constexpr std::int64_t kFewRows = 25;  // as PyTorch
  if (options.mode != CdistMode::automatic) {
    return options.mode == CdistMode::products;
  }
  return options.p == 2 && (a[-2] > kFewRows || b[-2] > kFewRows);
}

}  // namespace

Tensor vector_norm(Arg x, double p, Axes axes, ReduceOptions options) {
  return detail::named_as("vector_norm", [&] {
    static_cast<void>(detail::accepted_operand(kDistanceKind, x));
    detail::require_power(p, x);
    return detail::computed_wide(x, [&](const Tensor& value, const At& at) {
      return detail::norm_of(value, p, axes, options, at);
    });
  });
}

Tensor normalize(Arg x, NormalizeOptions options) {
  return detail::named_as("normalize", [&] {
    const Shape shape = detail::accepted_operand(kDistanceKind, x).layout->shape;
    detail::require_power(options.p, x);
    const int axis =
        detail::checked(normalize_axis("normalize", options.axis, shape.rank()), kDistanceKind, x);
    if (shape[axis] == 0) {
      return x.tensor();
    }
    return detail::computed_wide(x, [&](const Tensor& value, const At& at) {
      Tensor norm = detail::norm_of(value, options.p, axis, {.keep_dims = true}, at);
      return div(at(value), at(maximum(at(std::move(norm)), at(options.epsilon))));
    });
  });
}

Tensor cosine_similarity(Arg a, Arg b, CosineOptions options) {
  return detail::named_as("cosine_similarity", [&] {
    const std::array inputs{a, b};
    static_cast<void>(detail::operand(kDistanceKind, a));
    static_cast<void>(detail::operand(kDistanceKind, b));
    const DType dtype = detail::common_float(kDistanceKind, inputs);
    const Shape shape = broadcast(a.tensor().shape(), b.tensor().shape()).value();
    const int axis = detail::checked(
        normalize_axis("cosine_similarity", options.axis, shape.rank()), kDistanceKind, a);
    const At at(a.location());
    const auto wide = [&](const Tensor& x) {
      return expand(at(cast(at(x), compute_type(dtype))), shape);
    };
    const Tensor left = wide(a.tensor());
    const Tensor right = wide(b.tensor());
    const auto divisor = [&](const Tensor& x) {
      return maximum(at(detail::norm_of(x, 2, axis, {}, at)), at(options.epsilon));
    };
    const Tensor product = sum(at(mul(at(left), at(right))), axis);
    const Tensor norms = mul(at(divisor(left)), at(divisor(right)));
    return cast(at(div(at(product), at(norms))), dtype);
  });
}

Tensor cdist(Arg a, Arg b, CdistOptions options) {
  return detail::named_as("cdist", [&] {
    const DType dtype = checked_rows(a, b, options);
    const At at(a.location());
    const Tensor left = cast(at(a.tensor()), compute_type(dtype));
    const Tensor right = cast(at(b.tensor()), compute_type(dtype));
    if (has_products(left.shape(), right.shape(), options)) {
      return cast(at(product_distances(left, right, at)), dtype);
    }
    const Tensor difference = sub(at(unsqueeze(at(left), -2)), at(unsqueeze(at(right), -3)));
    const double p = left.shape()[-1] == 0 ? 1 : options.p;  // of no elements 0, for every p
    return cast(at(detail::norm_of(difference, p, -1, {}, at)), dtype);
  });
}

}  // namespace hearth
