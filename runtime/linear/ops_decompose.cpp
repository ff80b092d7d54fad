// QR, eigenvalues of symmetric matrices, and singular values. A host op packs its results into one
// tensor, of which the functions return views: so all of them have gradients.
#include <hearth/runtime/linalg_ops.hpp>
#include <hearth/runtime/matrix_ops.hpp>
#include <hearth/runtime/ops.hpp>

#include "host_op.hpp"
#include "lapack.hpp"
#include "linear_operands.hpp"
#include "matrix_loops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;
using detail::HostOp;
using detail::MatrixSizes;

Tensor turned(const Tensor& x, const At& at) {
  return transpose(at(x));
}

Tensor product_of(const Tensor& a, const Tensor& b, const At& at) {
  return matmul(at(a), at(b));
}

// a / b, and 0 where both are 0: a value with no influence has no gradient, also where equal values
// make its weight infinite.
Tensor guarded_quotient(const Tensor& a, const Tensor& b, const At& at) {
  const Tensor is_idle = logical_and(at(equal(at(a), at(0.0))), at(equal(at(b), at(0.0))));
  return div(at(a), at(where(at(is_idle), at(1.0), at(b))));
}

// A host op of x that packs its results. `run` is called with the call and a zero of its type.
template <class Run, class Vjp>
HostOp decomposition(const char* name,
                     const std::function<std::int64_t(const MatrixSizes& sizes)>& packed_size,
                     Run run,
                     Vjp vjp) {
  CustomKernelConfig config{.name = name, .inputs = {{"x"}}};
  config.rule = [packed_size](std::span<const TensorForm> in) -> std::vector<TensorForm> {
    const Shape& shape = in[0].shape;
    return {{in[0].dtype, detail::with_row(shape, packed_size(MatrixSizes(shape)))}};
  };
  config.host = [run](const HostKernelCall& call) {
    detail::for_real_type(call, [&](auto zero) { run(call, zero); });
  };
  config.vjp = vjp;
  return HostOp(config);
}

template <class Fn>
auto decomposing(std::string_view op, const Arg& x, const Fn& fn) {
  return detail::named_as(op, [&] {
    const At at(x.location());
    detail::lapack::require_usable(op, at);
    return fn(at);
  });
}

blasint lapack_size(std::int64_t size) {
  return static_cast<blasint>(size);
}

// ---- QR ----

// Columns of Q and rows of R.
std::int64_t qr_width(const MatrixSizes& sizes, bool is_complete) {
  return is_complete ? sizes.rows : std::min(sizes.rows, sizes.columns);
}

template <class T>
void run_qr(const HostKernelCall& call, bool is_complete) {
  const MatrixSizes sizes(call.input_shape(0));
  const std::int64_t m = sizes.rows;
  const std::int64_t n = sizes.columns;
  const std::int64_t width = qr_width(sizes, is_complete);
  const std::int64_t count = std::min(m, n);
  const std::span<const T> x = call.input<T>(0);
  const std::span<T> y = call.output<T>();
  detail::for_matrices(call, sizes.count, 4 * m * n * count, [&](auto begin, auto end) {
    std::vector<T> reflectors(static_cast<std::size_t>(m * std::max(n, width)));
    std::vector<T> tau(static_cast<std::size_t>(count));
    std::vector<T> work;
    for (std::int64_t matrix = begin; matrix < end; ++matrix) {
      T* const q = y.data() + matrix * width * (m + n);
      T* const r = q + m * width;
      detail::copy_transposed(x.data() + matrix * m * n, n, reflectors.data(), m, m, n);
      detail::lapack::geqrf(lapack_size(m), lapack_size(n), reflectors.data(), tau.data(), work);
      for (std::int64_t row = 0; row < width; ++row) {
        for (std::int64_t column = 0; column < n; ++column) {
          r[row * n + column] =
              row <= column ? reflectors[static_cast<std::size_t>(column * m + row)] : T{0};
        }
      }
      detail::lapack::orgqr(lapack_size(m),
                            lapack_size(width),
                            lapack_size(count),
                            reflectors.data(),
                            tau.data(),
                            work);
      detail::copy_transposed(reflectors.data(), m, q, width, width, m);
    }
  });
}

struct QrViews {
  Tensor q;
  Tensor r;
};
QrViews qr_views(const Tensor& packed, const Shape& shape, bool is_complete, const At& at) {
  const MatrixSizes sizes(shape);
  const std::int64_t width = qr_width(sizes, is_complete);
  std::int64_t offset = 0;
  Tensor q = detail::packed_matrix(packed, offset, sizes.rows, width, at);
  Tensor r = detail::packed_matrix(packed, offset, width, sizes.columns, at);
  return {std::move(q), std::move(r)};
}

// The gradient of a square or tall x: (Q̄ + Q·M)·R⁻ᵀ, with M the lower triangle of R·R̄ᵀ - Q̄ᵀ·Q made
// symmetric.
Tensor tall_qr_gradient(
    const Tensor& q, const Tensor& r, const Tensor& of_q, const Tensor& of_r, const At& at) {
  const Tensor whole =
      sub(at(product_of(r, turned(of_r, at), at)), at(product_of(turned(of_q, at), q, at)));
  const Tensor lower = tril(at(whole), -1);
  const Tensor on_diagonal = diag_embed(at(diagonal(at(whole))));
  const Tensor symmetric = add(at(add(at(lower), at(turned(lower, at)))), at(on_diagonal));
  const Tensor inner = add(at(of_q), at(product_of(q, symmetric, at)));
  return solve_triangular(at(turned(r, at)), at(inner), {.upper = false, .left = false});
}

// Of a wide x = [X Y], X·Q and R = [U V] are square: Y = Q·V.
std::vector<Tensor> qr_gradient(const CustomGradient& call, bool is_complete) {
  const At at{SourceLoc()};
  const Shape shape = call.inputs[0].shape();
  const std::int64_t m = shape[-2];
  const std::int64_t n = shape[-1];
  const auto [q, r] = qr_views(call.outputs[0], shape, is_complete, at);
  const auto [of_q, of_r] = qr_views(call.gradient, shape, is_complete, at);
  if (m >= n) {
    return {tall_qr_gradient(q, r, of_q, of_r, at)};
  }
  const auto left = [&](const Tensor& x) { return slice(at(x), -1, {.start = 0, .stop = m}); };
  const auto right = [&](const Tensor& x) { return slice(at(x), -1, {.start = m}); };
  const Tensor of_square_q =
      add(at(of_q), at(product_of(right(call.inputs[0]), turned(right(of_r), at), at)));
  const Tensor of_left = tall_qr_gradient(q, left(r), of_square_q, left(of_r), at);
  const Tensor of_right = product_of(q, right(of_r), at);
  return {concat({of_left, of_right}, -1, at.location())};
}

HostOp make_qr(bool is_complete) {
  return decomposition(
      "qr",
      [is_complete](const MatrixSizes& sizes) {
        return qr_width(sizes, is_complete) * (sizes.rows + sizes.columns);
      },
      [is_complete](const HostKernelCall& call, auto zero) {
        run_qr<decltype(zero)>(call, is_complete);
      },
      [is_complete](const CustomGradient& call) { return qr_gradient(call, is_complete); });
}

const HostOp& qr_op(bool is_complete) {
  static const HostOp kReduced = make_qr(false);
  static const HostOp kComplete = make_qr(true);
  return is_complete ? kComplete : kReduced;
}

// ---- eigenvalues ----

// NaN and infinities would make LAPACK's iterations fail in other ways.
template <class T>
void require_finite(std::string_view op, const Shape& shape, std::span<const T> x) {
  const auto odd = std::ranges::find_if(x, [](T value) { return !std::isfinite(value); });
  if (odd != x.end()) {
    const std::int64_t matrix = (odd - x.begin()) / MatrixSizes(shape).elements();
    detail::throw_kernel_failure(
        op,
        fmt::format(
            "{} has an element that is not finite: {}", detail::matrix_name(shape, matrix), *odd));
  }
}

std::string no_convergence(const std::string& matrix, blasint /*info*/) {
  return matrix + ": the iteration did not converge";
}

template <class T>
void run_eigh(const HostKernelCall& call) {
  const Shape& shape = call.input_shape(0);
  const MatrixSizes sizes(shape);
  const std::int64_t n = sizes.rows;
  const std::span<const T> x = call.input<T>(0);
  const std::span<T> y = call.output<T>();
  require_finite("eigh", shape, x);
  detail::MatrixFailures failures(sizes.count);
  detail::for_matrices(call, sizes.count, 8 * n * n * n, [&](auto begin, auto end) {
    std::vector<T> columns(static_cast<std::size_t>(n * n));
    std::vector<T> work;
    for (std::int64_t matrix = begin; matrix < end; ++matrix) {
      T* const values = y.data() + matrix * n * (n + 1);
      std::copy_n(x.data() + matrix * n * n, n * n, columns.data());
      failures.set(matrix, detail::lapack::syevd(lapack_size(n), columns.data(), values, work));
      detail::copy_transposed(columns.data(), n, values + n, n, n, n);
    }
  });
  failures.throw_first("eigh", shape, no_convergence);
}

struct EighViews {
  Tensor values;
  Tensor vectors;
};
EighViews eigh_views(const Tensor& packed, const Shape& shape, const At& at) {
  const std::int64_t n = shape[-1];
  std::int64_t offset = 0;
  Tensor values = detail::packed_row(packed, offset, n, at);
  Tensor vectors = detail::packed_matrix(packed, offset, n, n, at);
  return {std::move(values), std::move(vectors)};
}

// b_j - b_i for all pairs.
Tensor differences(const Tensor& values, const At& at) {
  return sub(at(unsqueeze(at(values), -2)), at(unsqueeze(at(values), -1)));
}

// V·(diag(λ̄) + VᵀV̄ / (λ_j - λ_i))·Vᵀ, symmetric. Off the diagonal only the antisymmetric part of
// VᵀV̄ counts, whose diagonal is 0.
std::vector<Tensor> eigh_gradient(const CustomGradient& call) {
  const At at{SourceLoc()};
  const Shape shape = call.inputs[0].shape();
  const auto [values, vectors] = eigh_views(call.outputs[0], shape, at);
  const auto [of_values, of_vectors] = eigh_views(call.gradient, shape, at);
  const Tensor inner = product_of(turned(vectors, at), of_vectors, at);
  const Tensor skew = mul(at(sub(at(inner), at(turned(inner, at)))), at(0.5));
  const Tensor turns = guarded_quotient(skew, differences(values, at), at);
  const Tensor whole = add(at(turns), at(diag_embed(at(of_values))));
  const Tensor outer_left = product_of(vectors, whole, at);
  return {product_of(outer_left, turned(vectors, at), at)};
}

const HostOp& eigh_op() {
  static const HostOp kOp = decomposition(
      "eigh",
      [](const MatrixSizes& sizes) { return sizes.rows * (sizes.rows + 1); },
      [](const HostKernelCall& call, auto zero) { run_eigh<decltype(zero)>(call); },
      eigh_gradient);
  return kOp;
}

// ---- singular values ----

// Columns of u and rows of vt.
struct SvdWidths {
  std::int64_t count = 0;
  std::int64_t left = 0;
  std::int64_t right = 0;

  SvdWidths(const MatrixSizes& sizes, bool is_full)
      : count(std::min(sizes.rows, sizes.columns)),
        left(is_full ? sizes.rows : count),
        right(is_full ? sizes.columns : count) {}
  [[nodiscard]] std::int64_t packed(const MatrixSizes& sizes) const noexcept {
    return sizes.rows * left + count + right * sizes.columns;
  }
};

// The vectors of matrices without elements, which LAPACK leaves out.
template <class T>
void set_one(T* x, std::int64_t n) {
  std::fill_n(x, n * n, T{0});
  for (std::int64_t i = 0; i < n; ++i) {
    x[i * (n + 1)] = 1;
  }
}

// LAPACK sees xᵀ = V·S·Uᵀ by columns: its left vectors are vt by rows, its right ones u by rows.
template <class T>
void run_svd(const HostKernelCall& call, bool is_full) {
  const Shape& shape = call.input_shape(0);
  const MatrixSizes sizes(shape);
  const SvdWidths widths(sizes, is_full);
  const std::int64_t m = sizes.rows;
  const std::int64_t n = sizes.columns;
  const std::span<const T> x = call.input<T>(0);
  const std::span<T> y = call.output<T>();
  require_finite("svd", shape, x);
  detail::MatrixFailures failures(sizes.count);
  const std::int64_t flops = 20 * m * n * widths.count;
  detail::for_matrices(call, sizes.count, flops, [&](auto begin, auto end) {
    std::vector<T> copy(static_cast<std::size_t>(m * n));
    std::vector<T> work;
    for (std::int64_t matrix = begin; matrix < end; ++matrix) {
      T* const u = y.data() + matrix * widths.packed(sizes);
      T* const values = u + m * widths.left;
      T* const vt = values + widths.count;
      if (widths.count == 0) {
        set_one(u, is_full ? m : 0);
        set_one(vt, is_full ? n : 0);
        continue;
      }
      std::copy_n(x.data() + matrix * m * n, m * n, copy.data());
      failures.set(matrix,
                   detail::lapack::gesdd(
                       is_full, lapack_size(n), lapack_size(m), copy.data(), values, vt, u, work));
    }
  });
  failures.throw_first("svd", shape, no_convergence);
}

struct SvdViews {
  Tensor u;
  Tensor values;
  Tensor vt;
};
SvdViews svd_views(const Tensor& packed, const Shape& shape, bool is_full, const At& at) {
  const MatrixSizes sizes(shape);
  const SvdWidths widths(sizes, is_full);
  std::int64_t offset = 0;
  Tensor u = detail::packed_matrix(packed, offset, sizes.rows, widths.left, at);
  Tensor values = detail::packed_row(packed, offset, widths.count, at);
  Tensor vt = detail::packed_matrix(packed, offset, widths.right, sizes.columns, at);
  return {std::move(u), std::move(values), std::move(vt)};
}

// The antisymmetric part of XᵀX̄, twice, over s_j² - s_i².
Tensor turns_of(const Tensor& inner, const Tensor& squares, const At& at) {
  return guarded_quotient(sub(at(inner), at(turned(inner, at))), squares, at);
}

// The part of x̄ outside of the columns of x, over the singular values.
Tensor beyond(
    const Tensor& of_x, const Tensor& x, const Tensor& inner, const Tensor& values, const At& at) {
  const Tensor rest = sub(at(of_x), at(product_of(x, inner, at)));
  return guarded_quotient(rest, expand(at(unsqueeze(at(values), -2)), rest.shape()), at);
}

// Phases: the turns of u and of v within their columns, and the values; then what leaves the
// columns of u, if x is tall, or of v, if x is wide.
std::vector<Tensor> svd_gradient(const CustomGradient& call, bool is_full) {
  const At at{SourceLoc()};
  const Shape shape = call.inputs[0].shape();
  const auto [u, values, vt] = svd_views(call.outputs[0], shape, is_full, at);
  const auto [of_u, of_values, of_vt] = svd_views(call.gradient, shape, is_full, at);
  const Tensor inner_u = product_of(turned(u, at), of_u, at);
  const Tensor inner_v = product_of(vt, turned(of_vt, at), at);
  const Tensor sums = add(at(unsqueeze(at(values), -2)), at(unsqueeze(at(values), -1)));
  const Tensor squares = mul(at(sums), at(differences(values, at)));
  const Tensor of_columns = mul(at(turns_of(inner_u, squares, at)), at(unsqueeze(at(values), -2)));
  const Tensor of_rows = mul(at(turns_of(inner_v, squares, at)), at(unsqueeze(at(values), -1)));
  const Tensor core = add(at(add(at(of_columns), at(of_rows))), at(diag_embed(at(of_values))));
  Tensor left = product_of(u, core, at);
  if (shape[-2] > shape[-1]) {
    left = add(at(left), at(beyond(of_u, u, inner_u, values, at)));
  }
  Tensor gradient = product_of(left, vt, at);
  if (shape[-2] < shape[-1]) {
    const Tensor outside = beyond(turned(of_vt, at), turned(vt, at), inner_v, values, at);
    gradient = add(at(gradient), at(product_of(u, turned(outside, at), at)));
  }
  return {gradient};
}

HostOp make_svd(bool is_full) {
  return decomposition(
      "svd",
      [is_full](const MatrixSizes& sizes) { return SvdWidths(sizes, is_full).packed(sizes); },
      [is_full](const HostKernelCall& call, auto zero) { run_svd<decltype(zero)>(call, is_full); },
      [is_full](const CustomGradient& call) { return svd_gradient(call, is_full); });
}

const HostOp& svd_op(bool is_full) {
  static const HostOp kReduced = make_svd(false);
  static const HostOp kFull = make_svd(true);
  return is_full ? kFull : kReduced;
}

}  // namespace

Qr qr(Arg x, QrOptions options) {
  return decomposing("qr", x, [&](const At& at) {
    const Shape shape = detail::require_real(x, 2, "matrices [..., m, n]");
    if (options.complete && shape[-2] > shape[-1] && x.tensor().is_tracked()) {
      detail::refuse_linear(ErrorCode::invalid_argument,
                            "a complete Q of more rows than columns has no gradient",
                            std::span<const Arg>(&x, 1));
    }
    auto [q, r] =
        qr_views(qr_op(options.complete)({x.tensor()}, {}, at), shape, options.complete, at);
    return Qr{std::move(q), std::move(r)};
  });
}

Eigh eigh(Arg x) {
  return decomposing("eigh", x, [&](const At& at) {
    const Shape shape = detail::require_square(x);
    auto [values, vectors] = eigh_views(eigh_op()({x.tensor()}, {}, at), shape, at);
    return Eigh{std::move(values), std::move(vectors)};
  });
}

Svd svd(Arg x, SvdOptions options) {
  return decomposing("svd", x, [&](const At& at) {
    const Shape shape = detail::require_real(x, 2, "matrices [..., m, n]");
    if (options.full && shape[-2] != shape[-1] && x.tensor().is_tracked()) {
      detail::refuse_linear(ErrorCode::invalid_argument,
                            "full vectors of a matrix that is not square have no gradient",
                            std::span<const Arg>(&x, 1));
    }
    auto [u, values, vt] =
        svd_views(svd_op(options.full)({x.tensor()}, {}, at), shape, options.full, at);
    return Svd{std::move(u), std::move(values), std::move(vt)};
  });
}

}  // namespace hearth
