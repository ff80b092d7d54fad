// Each host function takes matrices in row-major order, which LAPACK sees transposed.
#include "factor_kernels.hpp"

#include <hearth/runtime/matrix_ops.hpp>
#include <hearth/runtime/ops.hpp>

#include "blocked_factors.hpp"
#include "lapack.hpp"
#include "matrix_loops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace hearth::detail {
namespace {

// Columns of b that one core solves at a time.
constexpr std::int64_t kSolvedColumns = 96;

SolveCaller caller_of(double number) {
  return static_cast<SolveCaller>(static_cast<int>(number));
}

double number_of(SolveCaller caller) {
  return static_cast<double>(caller);
}

// Places without numbers around them, for gradients.
const At& nowhere() {
  static const At kNowhere{SourceLoc()};
  return kNowhere;
}

// ---- factors ----

template <class T>
void run_lu(const HostKernelCall& call) {
  const Shape& shape = call.input_shape(0);
  const MatrixSizes sizes(shape);
  const SolveCaller caller = caller_of(call.number(0));
  const std::span<const T> x = call.input<T>(0);
  const std::span<T> both = call.output<T>(0);
  const std::span<std::int32_t> pivots = call.output<std::int32_t>(1);
  const std::int64_t n = sizes.rows;
  const auto size = static_cast<blasint>(n);
  MatrixFailures failures(sizes.count);
  const auto factor = [&](std::int64_t matrix, std::vector<blasint>& swaps) {
    T* const a = both.data() + matrix * sizes.elements();
    std::copy_n(x.data() + matrix * sizes.elements(), sizes.elements(), a);
    swaps.resize(static_cast<std::size_t>(n));
    failures.set(matrix,
                 n < kBlockedSize
                     ? lapack::getrf(size, size, a, std::max<blasint>(size, 1), swaps.data())
                     : blocked_lu(call, n, a, swaps.data()));
    std::copy(swaps.begin(), swaps.end(), pivots.begin() + matrix * n);
  };
  if (n < kBlockedSize) {
    for_matrices(call, sizes.count, n * n * n, [&](std::int64_t begin, std::int64_t end) {
      std::vector<blasint> swaps;
      for (std::int64_t matrix = begin; matrix < end; ++matrix) {
        factor(matrix, swaps);
      }
    });
  } else {
    std::vector<blasint> swaps;
    for (std::int64_t matrix = 0; matrix < sizes.count; ++matrix) {
      factor(matrix, swaps);
    }
  }
  if (caller == SolveCaller::solve || caller == SolveCaller::inverse) {
    failures.throw_first(name_of(caller), shape, [](const std::string& matrix, blasint info) {
      return fmt::format("{} is singular: pivot {} is 0", matrix, info - 1);
    });
  }
}

const HostOp& lu_op() {
  static const HostOp kOp = [] {
    CustomKernelConfig config{
        .name = "lu", .inputs = {{"x"}}, .outputs = {"factors", "pivots"}, .numbers = {{"caller"}}};
    config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> {
      const Shape& shape = in[0].shape;
      return {in[0],
              {DType::i32, Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 1)))}};
    };
    config.host = [](const HostKernelCall& call) {
      for_real_type(call, [&](auto zero) { run_lu<decltype(zero)>(call); });
    };
    return HostOp(config);
  }();
  return kOp;
}

// ---- solutions ----

// The first diagonal element of U that is 0, or n.
template <class T>
std::int64_t zero_pivot(const T* factors, std::int64_t n) {
  std::int64_t i = 0;
  while (i < n && factors[i * (n + 1)] != T{0}) {
    ++i;
  }
  return i;
}

// Swaps rows of x [n, columns] with their pivots, from the first on or from the last.
template <class T>
void swap_rows(T* x,
               std::int64_t step,
               std::int64_t columns,
               std::span<const std::int32_t> pivots,
               bool is_back) {
  const auto n = static_cast<std::int64_t>(pivots.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = is_back ? n - 1 - i : i;
    const std::int64_t other = pivots[static_cast<std::size_t>(row)] - 1;
    if (other != row) {
      std::swap_ranges(x + row * step, x + row * step + columns, x + other * step);
    }
  }
}

// Row by row, the factors of aᵀ = P·L·U are Uᵀ below and on the diagonal, and Lᵀ above it:
// a⁻¹·b = P·L⁻ᵀ·U⁻ᵀ·b, and a⁻ᵀ·b = U⁻¹·L⁻¹·Pᵀ·b.
template <class T>
void run_lu_solve(const HostKernelCall& call) {
  const Shape& shape = call.input_shape(1);
  const MatrixSizes sizes(shape);
  const std::int64_t n = sizes.rows;
  const std::int64_t columns = call.input_shape(3)[-1];
  const bool is_transposed = call.number(0) != 0;
  const std::span<const T> factors = call.input<T>(1);
  const std::span<const std::int32_t> pivots = call.input<std::int32_t>(2);
  const std::span<const T> b = call.input<T>(3);
  const std::span<T> x = call.output<T>();
  for (std::int64_t matrix = 0; matrix < sizes.count && columns > 0; ++matrix) {
    const std::int64_t pivot = zero_pivot(factors.data() + matrix * n * n, n);
    if (pivot < n) {
      throw_kernel_failure(
          name_of(caller_of(call.number(1))),
          fmt::format("{} is singular: pivot {} is 0", matrix_name(shape, matrix), pivot));
    }
  }
  std::copy(b.begin(), b.end(), x.begin());
  const lapack::Triangle of_u{.is_upper = false, .is_transposed = is_transposed};
  const lapack::Triangle of_l{
      .is_upper = true, .is_transposed = is_transposed, .has_unit_diagonal = true};
  const std::int64_t parts = (columns + kSolvedColumns - 1) / kSolvedColumns;
  const std::int64_t flops = 2 * n * n * std::min(columns, kSolvedColumns);
  for_matrices(call, sizes.count * parts, flops, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t matrix = part / parts;
      const std::int64_t first = part % parts * kSolvedColumns;
      const std::int64_t width = std::min(kSolvedColumns, columns - first);
      T* const to = x.data() + matrix * n * columns + first;
      const auto solve_by = [&](const lapack::Triangle& triangle) {
        lapack::trsm(triangle,
                     static_cast<blasint>(n),
                     static_cast<blasint>(width),
                     factors.data() + matrix * n * n,
                     to,
                     static_cast<blasint>(columns));
      };
      const auto swaps =
          pivots.subspan(static_cast<std::size_t>(matrix * n), static_cast<std::size_t>(n));
      if (is_transposed) {
        swap_rows(to, columns, width, swaps, false);
        solve_by(of_l);
        solve_by(of_u);
      } else {
        solve_by(of_u);
        solve_by(of_l);
        swap_rows(to, columns, width, swaps, true);
      }
    }
  });
}

Tensor minus_outer(const Tensor& a, const Tensor& b, const At& at) {
  return neg(at(matmul(at(a), at(transpose(at(b))))));
}

std::vector<Tensor> lu_solve_gradients(const CustomGradient& call) {
  const At& at = nowhere();
  const bool is_transposed = call.numbers[0] != 0;
  const Tensor of_b = lu_solve(call.inputs[0],
                               {call.inputs[1], call.inputs[2]},
                               call.gradient,
                               !is_transposed,
                               caller_of(call.numbers[1]),
                               at);
  std::vector<Tensor> gradients(4);
  if (call.is_needed[0]) {
    gradients[0] = is_transposed ? minus_outer(call.outputs[0], of_b, at)
                                 : minus_outer(of_b, call.outputs[0], at);
  }
  if (call.is_needed[3]) {
    gradients[3] = of_b;
  }
  return gradients;
}

const HostOp& lu_solve_op() {
  static const HostOp kOp = [] {
    CustomKernelConfig config{.name = "solve",
                              .inputs = {{"a"}, {"factors"}, {"pivots"}, {"b"}},
                              .numbers = {{"is_transposed"}, {"caller"}}};
    config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> { return {in[3]}; };
    config.host = [](const HostKernelCall& call) {
      for_real_type(call, [&](auto zero) { run_lu_solve<decltype(zero)>(call); });
    };
    config.vjp = lu_solve_gradients;
    return HostOp(config);
  }();
  return kOp;
}

// ---- determinants ----

// Calls take(sign of the permutation, diagonal step, factors) for each matrix.
template <class T, class Take>
void for_determinants(const HostKernelCall& call, const Take& take) {
  const MatrixSizes sizes(call.input_shape(1));
  const std::int64_t n = sizes.rows;
  const std::span<const T> factors = call.input<T>(1);
  const std::span<const std::int32_t> pivots = call.input<std::int32_t>(2);
  for (std::int64_t matrix = 0; matrix < sizes.count; ++matrix) {
    T sign = 1;
    for (std::int64_t i = 0; i < n; ++i) {
      if (pivots[static_cast<std::size_t>(matrix * n + i)] != i + 1) {
        sign = -sign;
      }
    }
    take(static_cast<std::size_t>(matrix), sign, n, factors.data() + matrix * n * n);
  }
}

template <class T>
void run_determinant(const HostKernelCall& call) {
  const std::span<T> y = call.output<T>();
  for_determinants<T>(call, [&](std::size_t matrix, T sign, std::int64_t n, const T* factors) {
    double product = static_cast<double>(sign);
    for (std::int64_t i = 0; i < n; ++i) {
      product *= static_cast<double>(factors[i * (n + 1)]);
    }
    y[matrix] = static_cast<T>(product);
  });
}

template <class T>
void run_log_determinant(const HostKernelCall& call) {
  const std::span<T> y = call.output<T>();
  for_determinants<T>(call, [&](std::size_t matrix, T sign, std::int64_t n, const T* factors) {
    double log_size = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const T pivot = factors[i * (n + 1)];
      sign = pivot < 0 ? -sign : (pivot == 0 ? T{0} : sign);
      log_size += std::log(std::abs(static_cast<double>(pivot)));
    }
    y[2 * matrix] = sign;
    y[2 * matrix + 1] = static_cast<T>(log_size);
  });
}

// scale [...] times the transposed inverse of a.
std::vector<Tensor> inverse_gradient(const CustomGradient& call,
                                     const Tensor& scale,
                                     SolveCaller caller) {
  const At& at = nowhere();
  const Tensor& a = call.inputs[0];
  const Tensor one = eye(a.device(), a.shape()[-1], {}, a.dtype(), at.location());
  const Tensor ones_of_all = expand(at(one), a.shape());
  const Tensor inverse_of_a =
      lu_solve(a, {call.inputs[1], call.inputs[2]}, ones_of_all, true, caller, at);
  const Tensor factor = unsqueeze(at(unsqueeze(at(scale), -1)), -1);
  return {mul(at(inverse_of_a), at(factor)), Tensor(), Tensor()};
}

CustomKernelConfig determinant_config(std::string name, bool is_log) {
  CustomKernelConfig config{.name = std::move(name), .inputs = {{"a"}, {"factors"}, {"pivots"}}};
  config.rule = [is_log](std::span<const TensorForm> in) -> std::vector<TensorForm> {
    const std::span<const std::int64_t> dims = in[0].shape.dims();
    std::vector<std::int64_t> sizes(dims.begin(), dims.end() - 2);
    if (is_log) {
      sizes.push_back(2);
    }
    return {{in[0].dtype, Shape(sizes)}};
  };
  return config;
}

const HostOp& determinant_op() {
  static const HostOp kOp = [] {
    CustomKernelConfig config = determinant_config("determinant", false);
    config.host = [](const HostKernelCall& call) {
      for_real_type(call, [&](auto zero) { run_determinant<decltype(zero)>(call); });
    };
    config.vjp = [](const CustomGradient& call) {
      const At& at = nowhere();
      return inverse_gradient(
          call, mul(at(call.gradient), at(call.outputs[0])), SolveCaller::determinant);
    };
    return HostOp(config);
  }();
  return kOp;
}

const HostOp& log_determinant_op() {
  static const HostOp kOp = [] {
    CustomKernelConfig config = determinant_config("slogdet", true);
    config.host = [](const HostKernelCall& call) {
      for_real_type(call, [&](auto zero) { run_log_determinant<decltype(zero)>(call); });
    };
    config.vjp = [](const CustomGradient& call) {
      const At& at = nowhere();
      const Tensor of_log = squeeze(at(slice(at(call.gradient), -1, {.start = 1, .stop = 2})), -1);
      return inverse_gradient(call, of_log, SolveCaller::slogdet);
    };
    return HostOp(config);
  }();
  return kOp;
}

// ---- triangles ----

template <class T>
void run_cholesky(const HostKernelCall& call) {
  const Shape& shape = call.input_shape(0);
  const MatrixSizes sizes(shape);
  const std::int64_t n = sizes.rows;
  const std::span<const T> x = call.input<T>(0);
  const std::span<T> y = call.output<T>();
  MatrixFailures failures(sizes.count);
  const auto factor = [&](std::int64_t matrix) {
    T* const l = y.data() + matrix * n * n;
    std::copy_n(x.data() + matrix * n * n, n * n, l);
    failures.set(
        matrix,
        n < kBlockedSize
            ? lapack::potrf(
                  static_cast<blasint>(n), l, static_cast<blasint>(std::max<std::int64_t>(n, 1)))
            : blocked_cholesky(call, n, l));
    for (std::int64_t row = 0; row < n; ++row) {
      std::fill(l + row * n + row + 1, l + (row + 1) * n, T{0});
    }
    // OpenBLAS takes NaN for a positive pivot.
    for (std::int64_t row = 0; row < n && failures.is_fine(matrix); ++row) {
      if (!(l[row * (n + 1)] > 0)) {
        failures.set(matrix, static_cast<blasint>(row + 1));
      }
    }
  };
  if (n < kBlockedSize) {
    for_matrices(call, sizes.count, n * n * n / 3, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t matrix = begin; matrix < end; ++matrix) {
        factor(matrix);
      }
    });
  } else {
    for (std::int64_t matrix = 0; matrix < sizes.count; ++matrix) {
      factor(matrix);
    }
  }
  failures.throw_first("cholesky", shape, [](const std::string& matrix, blasint info) {
    return fmt::format("{} is not positive definite: pivot {} is not above 0", matrix, info - 1);
  });
}

// Φ(LᵀL̄), the lower triangle with half of the diagonal, between L⁻ᵀ and L⁻¹; then symmetric.
std::vector<Tensor> cholesky_gradient(const CustomGradient& call) {
  const At& at = nowhere();
  const Tensor& l = call.outputs[0];
  const Tensor product = tril(at(matmul(at(transpose(at(l))), at(call.gradient))));
  const Tensor on_diagonal = mul(at(diag_embed(at(diagonal(at(product))))), at(0.5));
  const Tensor half = sub(at(product), at(on_diagonal));
  const TriangularCall upwards{.is_transposed = true};
  const Tensor left = triangular_solution(l, half, upwards, at);
  const Tensor both =
      transpose(at(triangular_solution(l, contiguous(at(transpose(at(left)))), upwards, at)));
  return {mul(at(add(at(both), at(transpose(at(both))))), at(0.5))};
}

const HostOp& cholesky_op() {
  static const HostOp kOp = [] {
    CustomKernelConfig config{.name = "cholesky", .inputs = {{"x"}}};
    config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> { return {in[0]}; };
    config.host = [](const HostKernelCall& call) {
      for_real_type(call, [&](auto zero) { run_cholesky<decltype(zero)>(call); });
    };
    config.vjp = cholesky_gradient;
    return HostOp(config);
  }();
  return kOp;
}

TriangularCall triangular_call(std::span<const double> numbers) {
  return {.is_upper = numbers[0] != 0,
          .is_transposed = numbers[1] != 0,
          .has_unit_diagonal = numbers[2] != 0};
}

template <class T>
void run_triangular(const HostKernelCall& call) {
  const Shape& shape = call.input_shape(0);
  const MatrixSizes sizes(shape);
  const std::int64_t n = sizes.rows;
  const std::int64_t columns = call.input_shape(1)[-1];
  const std::array numbers{call.number(0), call.number(1), call.number(2)};
  const TriangularCall how = triangular_call(numbers);
  const lapack::Triangle triangle{.is_upper = how.is_upper,
                                  .is_transposed = how.is_transposed,
                                  .has_unit_diagonal = how.has_unit_diagonal};
  const std::span<const T> a = call.input<T>(0);
  const std::span<const T> b = call.input<T>(1);
  const std::span<T> x = call.output<T>();
  for (std::int64_t matrix = 0; matrix < sizes.count && columns > 0; ++matrix) {
    const std::int64_t pivot = how.has_unit_diagonal ? n : zero_pivot(a.data() + matrix * n * n, n);
    if (pivot < n) {
      throw_kernel_failure("solve_triangular",
                           fmt::format("{} is singular: element {} of its diagonal is 0",
                                       matrix_name(shape, matrix),
                                       pivot));
    }
  }
  std::copy(b.begin(), b.end(), x.begin());
  const std::int64_t parts = (columns + kSolvedColumns - 1) / kSolvedColumns;
  const std::int64_t flops = n * n * std::min(columns, kSolvedColumns);
  for_matrices(call, sizes.count * parts, flops, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t matrix = part / parts;
      const std::int64_t first = part % parts * kSolvedColumns;
      lapack::trsm(triangle,
                   static_cast<blasint>(n),
                   static_cast<blasint>(std::min(kSolvedColumns, columns - first)),
                   a.data() + matrix * n * n,
                   x.data() + matrix * n * columns + first,
                   static_cast<blasint>(columns));
    }
  });
}

std::vector<Tensor> triangular_gradients(const CustomGradient& call) {
  const At& at = nowhere();
  const TriangularCall how = triangular_call(call.numbers);
  TriangularCall back = how;
  back.is_transposed = !how.is_transposed;
  const Tensor of_b = triangular_solution(call.inputs[0], call.gradient, back, at);
  std::vector<Tensor> gradients(2);
  if (call.is_needed[0]) {
    const Tensor whole = how.is_transposed ? minus_outer(call.outputs[0], of_b, at)
                                           : minus_outer(of_b, call.outputs[0], at);
    const std::int64_t beside = how.has_unit_diagonal ? 1 : 0;
    gradients[0] = how.is_upper ? triu(at(whole), beside) : tril(at(whole), -beside);
  }
  if (call.is_needed[1]) {
    gradients[1] = of_b;
  }
  return gradients;
}

const HostOp& triangular_op() {
  static const HostOp kOp = [] {
    CustomKernelConfig config{.name = "solve_triangular",
                              .inputs = {{"a"}, {"b"}},
                              .numbers = {{"is_upper"}, {"is_transposed"}, {"has_unit_diagonal"}}};
    config.rule = [](std::span<const TensorForm> in) -> std::vector<TensorForm> { return {in[1]}; };
    config.host = [](const HostKernelCall& call) {
      for_real_type(call, [&](auto zero) { run_triangular<decltype(zero)>(call); });
    };
    config.vjp = triangular_gradients;
    return HostOp(config);
  }();
  return kOp;
}

}  // namespace

std::string_view name_of(SolveCaller caller) noexcept {
  static constexpr std::array<std::string_view, 4> kNames{
      "solve", "inverse", "determinant", "slogdet"};
  return kNames[static_cast<std::size_t>(caller)];
}

LuFactors lu_factors(const Tensor& a, SolveCaller caller, const At& at) {
  const std::array inputs{a.detach()};
  const std::array numbers{number_of(caller)};
  std::vector<Tensor> both = lu_op().all(inputs, numbers, at);
  return {std::move(both[0]), std::move(both[1])};
}

Tensor lu_solve(const Tensor& a,
                const LuFactors& factors,
                const Tensor& b,
                bool is_transposed,
                SolveCaller caller,
                const At& at) {
  return lu_solve_op()(
      {a, factors.both, factors.pivots, b}, {is_transposed ? 1.0 : 0.0, number_of(caller)}, at);
}

Tensor lu_determinant(const Tensor& a, const LuFactors& factors, const At& at) {
  return determinant_op()({a, factors.both, factors.pivots}, {}, at);
}

Tensor lu_log_determinant(const Tensor& a, const LuFactors& factors, const At& at) {
  return log_determinant_op()({a, factors.both, factors.pivots}, {}, at);
}

Tensor cholesky_factor(const Tensor& x, const At& at) {
  return cholesky_op()({x}, {}, at);
}

Tensor triangular_solution(const Tensor& a, const Tensor& b, TriangularCall call, const At& at) {
  const auto flag = [](bool is_set) { return is_set ? 1.0 : 0.0; };
  return triangular_op()(
      {a, b}, {flag(call.is_upper), flag(call.is_transposed), flag(call.has_unit_diagonal)}, at);
}

}  // namespace hearth::detail
