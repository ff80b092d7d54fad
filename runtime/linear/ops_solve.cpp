// Systems of equations, inverses and determinants: operands are checked and broadcast here, and the
// host ops compute.
#include <hearth/runtime/linalg_ops.hpp>
#include <hearth/runtime/ops.hpp>

#include "factor_kernels.hpp"
#include "lapack.hpp"
#include "linear_operands.hpp"

#include <array>
#include <string_view>
#include <utility>

namespace hearth {
namespace {

using detail::At;
using detail::SolveCaller;

// The name in errors, and the place of the call.
template <class Fn>
auto solving(std::string_view op, const Arg& x, const Fn& fn) {
  return detail::named_as(op, [&] {
    const At at(x.location());
    detail::lapack::require_usable(op, at);
    return fn(at);
  });
}

// As in torch.linalg.solve: rank 1, or a's shape without its last axis.
bool are_vectors(const Shape& a, const Shape& b) {
  return b.rank() == 1 || (a.rank() == b.rank() + 1 && b == detail::with_row(a, a[-1]));
}

Tensor solution_of(const Arg& a, const Arg& b, const At& at) {
  const Shape shape = detail::require_square(a);
  const Shape wanted = detail::require_real(b, 1, "vectors [..., n] or matrices [..., n, k]");
  const bool is_vector = are_vectors(shape, wanted);
  const Tensor columns = is_vector ? unsqueeze(at(b.tensor()), -1) : b.tensor();
  if (columns.shape()[-2] != shape[-1]) {
    detail::refuse_linear(
        ErrorCode::shape_mismatch, "a and b differ in their rows", std::array{a, b});
  }
  const detail::LinearPair both = detail::broadcast_batches(a, columns, b);
  detail::LuFactors factors = detail::lu_factors(a.tensor(), SolveCaller::solve, at);
  if (both.a.shape() != shape) {  // one factorisation for all that a was broadcast to
    factors.both = expand(at(factors.both), both.a.shape());
    factors.pivots = expand(at(factors.pivots), detail::with_row(both.a.shape(), shape[-1]));
  }
  Tensor x = detail::lu_solve(both.a, factors, both.b, false, SolveCaller::solve, at);
  return is_vector ? squeeze(at(std::move(x)), -1) : x;
}

Tensor triangular_of(const Arg& a, const Arg& b, const TriangularOptions& options, const At& at) {
  const Shape shape = detail::require_square(a);
  const Shape wanted = detail::require_real(b, 2, "matrices [..., n, k]");
  if (wanted[options.left ? -2 : -1] != shape[-1]) {
    detail::refuse_linear(
        ErrorCode::shape_mismatch,
        options.left ? "a and b differ in their rows" : "a and b differ in their columns",
        std::array{a, b});
  }
  const detail::LinearPair both = detail::broadcast_batches(a, b.tensor(), b);
  // x·a = b is aᵀ·xᵀ = bᵀ.
  Tensor x = detail::triangular_solution(both.a,
                                         options.left ? both.b : transpose(at(both.b)),
                                         {.is_upper = options.upper,
                                          .is_transposed = !options.left,
                                          .has_unit_diagonal = options.unit_diagonal},
                                         at);
  return options.left ? x : transpose(at(std::move(x)));
}

Tensor inverse_of(const Arg& x, const At& at) {
  const Shape shape = detail::require_square(x);
  const Tensor& a = x.tensor();
  const detail::LuFactors factors = detail::lu_factors(a, SolveCaller::inverse, at);
  const Tensor one = eye(a.device(), shape[-1], {}, a.dtype(), at.location());
  return detail::lu_solve(a, factors, expand(at(one), shape), false, SolveCaller::inverse, at);
}

// Least norm among the least squares: a = Q·R of independent columns, or aᵀ of independent rows.
Tensor least_squares(const Arg& a, const Arg& b, const At& at) {
  const Shape shape = detail::require_real(a, 2, "matrices [..., m, n]");
  const Shape wanted = detail::require_real(b, 2, "matrices [..., m, k]");
  if (wanted[-2] != shape[-2]) {
    detail::refuse_linear(
        ErrorCode::shape_mismatch, "a and b differ in their rows", std::array{a, b});
  }
  if (a.tensor().dtype() != b.tensor().dtype()) {
    detail::refuse_linear(
        ErrorCode::dtype_mismatch, "takes operands of one type", std::array{a, b});
  }
  const bool is_tall = shape[-2] >= shape[-1];
  const Qr factors = qr(is_tall ? at(a.tensor()) : at(transpose(at(a.tensor()))));
  if (is_tall) {
    const Tensor projected = matmul(at(transpose(at(factors.q))), at(b.tensor()));
    return solve_triangular(at(factors.r), at(projected), {.upper = true});
  }
  const Tensor inner =
      solve_triangular(at(transpose(at(factors.r))), at(b.tensor()), {.upper = false});
  return matmul(at(factors.q), at(inner));
}

}  // namespace

Tensor cholesky(Arg x) {
  return solving("cholesky", x, [&](const At& at) {
    static_cast<void>(detail::require_square(x));
    return detail::cholesky_factor(x.tensor(), at);
  });
}

Tensor solve(Arg a, Arg b) {
  return solving("solve", a, [&](const At& at) { return solution_of(a, b, at); });
}

Tensor solve_triangular(Arg a, Arg b, TriangularOptions options) {
  return solving(
      "solve_triangular", a, [&](const At& at) { return triangular_of(a, b, options, at); });
}

Tensor inverse(Arg x) {
  return solving("inverse", x, [&](const At& at) { return inverse_of(x, at); });
}

Tensor determinant(Arg x) {
  return solving("determinant", x, [&](const At& at) {
    static_cast<void>(detail::require_square(x));
    const Tensor& a = x.tensor();
    return detail::lu_determinant(a, detail::lu_factors(a, SolveCaller::determinant, at), at);
  });
}

SignAndLog slogdet(Arg x) {
  return solving("slogdet", x, [&](const At& at) {
    static_cast<void>(detail::require_square(x));
    const Tensor& a = x.tensor();
    const Tensor both =
        detail::lu_log_determinant(a, detail::lu_factors(a, SolveCaller::slogdet, at), at);
    const auto part = [&](std::int64_t i) {
      return squeeze(at(slice(at(both), -1, {.start = i, .stop = i + 1})), -1);
    };
    return SignAndLog{part(0).detach(), part(1)};
  });
}

Tensor lstsq(Arg a, Arg b) {
  return solving("lstsq", a, [&](const At& at) { return least_squares(a, b, at); });
}

}  // namespace hearth
