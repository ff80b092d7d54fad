#include "blocked_factors.hpp"

#include "lapack.hpp"

#include <algorithm>

namespace hearth::detail {
namespace {

// Width of the panel that one core factors, and of the parts of the rest (bench/linear_bench).
constexpr std::int64_t kPanel = 96;
constexpr std::int64_t kPart = 96;

blasint as_blas(std::int64_t size) {
  return static_cast<blasint>(size);
}

// c -= a·b or a·bᵀ.
struct BlockProduct {
  CBLAS_ORDER order = CblasRowMajor;
  CBLAS_TRANSPOSE b_transposed = CblasNoTrans;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  std::int64_t step = 0;

  void subtract(const float* a, const float* b, float* c) const {
    cblas_sgemm(order,
                CblasNoTrans,
                b_transposed,
                as_blas(rows),
                as_blas(columns),
                as_blas(depth),
                -1.0F,
                a,
                as_blas(step),
                b,
                as_blas(step),
                1.0F,
                c,
                as_blas(step));
  }
  void subtract(const double* a, const double* b, double* c) const {
    cblas_dgemm(order,
                CblasNoTrans,
                b_transposed,
                as_blas(rows),
                as_blas(columns),
                as_blas(depth),
                -1.0,
                a,
                as_blas(step),
                b,
                as_blas(step),
                1.0,
                c,
                as_blas(step));
  }
};

// rows·L⁻ᵀ in place of the rows [count, n], row-major.
void solve_rows(
    std::int64_t count, std::int64_t n, const float* l, float* rows, std::int64_t step) {
  cblas_strsm(CblasRowMajor,
              CblasRight,
              CblasLower,
              CblasTrans,
              CblasNonUnit,
              as_blas(count),
              as_blas(n),
              1.0F,
              l,
              as_blas(step),
              rows,
              as_blas(step));
}
void solve_rows(
    std::int64_t count, std::int64_t n, const double* l, double* rows, std::int64_t step) {
  cblas_dtrsm(CblasRowMajor,
              CblasRight,
              CblasLower,
              CblasTrans,
              CblasNonUnit,
              as_blas(count),
              as_blas(n),
              1.0,
              l,
              as_blas(step),
              rows,
              as_blas(step));
}

// L⁻¹·columns in place of the columns [n, count], column-major; L has ones on its diagonal.
void solve_columns(
    std::int64_t count, std::int64_t n, const float* l, float* columns, std::int64_t step) {
  cblas_strsm(CblasColMajor,
              CblasLeft,
              CblasLower,
              CblasNoTrans,
              CblasUnit,
              as_blas(n),
              as_blas(count),
              1.0F,
              l,
              as_blas(step),
              columns,
              as_blas(step));
}
void solve_columns(
    std::int64_t count, std::int64_t n, const double* l, double* columns, std::int64_t step) {
  cblas_dtrsm(CblasColMajor,
              CblasLeft,
              CblasLower,
              CblasNoTrans,
              CblasUnit,
              as_blas(n),
              as_blas(count),
              1.0,
              l,
              as_blas(step),
              columns,
              as_blas(step));
}

}  // namespace

// Phases of a panel: one core factors its corner; the cores share the rows below it; then they
// share the rest of the matrix. Of the rest, only parts at and below the diagonal count.
template <class T>
blasint blocked_cholesky(const HostKernelCall& call, std::int64_t n, T* a) {
  for (std::int64_t first = 0; first < n; first += kPanel) {
    const std::int64_t width = std::min(kPanel, n - first);
    const std::int64_t end = first + width;
    T* const corner = a + first * n + first;
    const blasint info = lapack::potrf(as_blas(width), corner, as_blas(n));
    if (info != 0) {
      return as_blas(first) + info;
    }
    call.parallel_for(n - end, kPart, [&](std::int64_t begin, std::int64_t stop) {
      solve_rows(stop - begin, width, corner, a + (end + begin) * n + first, n);
    });
    call.parallel_for(n - end, kPart, [&](std::int64_t begin, std::int64_t stop) {
      const BlockProduct product{.order = CblasRowMajor,
                                 .b_transposed = CblasTrans,
                                 .rows = stop - begin,
                                 .columns = stop,
                                 .depth = width,
                                 .step = n};
      const T* const rows = a + (end + begin) * n + first;
      product.subtract(rows, a + end * n + first, a + (end + begin) * n + end);
    });
  }
  return 0;
}

// Phases of a panel: one core factors it; the cores share the columns on both sides, which swap
// their rows. The columns behind it also lose its part.
template <class T>
blasint blocked_lu(const HostKernelCall& call, std::int64_t n, T* a, blasint* pivots) {
  blasint failure = 0;
  for (std::int64_t first = 0; first < n; first += kPanel) {
    const std::int64_t width = std::min(kPanel, n - first);
    const std::int64_t end = first + width;
    T* const corner = a + first * n + first;
    const blasint info =
        lapack::getrf(as_blas(n - first), as_blas(width), corner, as_blas(n), pivots + first);
    if (info != 0 && failure == 0) {
      failure = as_blas(first) + info;
    }
    for (std::int64_t i = first; i < end; ++i) {
      pivots[i] += as_blas(first);
    }
    const std::int64_t others = n - width;
    call.parallel_for(others, kPart, [&](std::int64_t begin, std::int64_t stop) {
      const auto swap = [&](std::int64_t from, std::int64_t to) {
        if (from < to) {
          lapack::laswp(as_blas(to - from),
                        a + from * n,
                        as_blas(n),
                        as_blas(first + 1),
                        as_blas(end),
                        pivots);
        }
      };
      swap(std::min(begin, first), std::min(stop, first));
      const std::int64_t from = std::max(begin, first) + width;
      const std::int64_t to = std::max(stop, first) + width;
      swap(from, to);
      if (from < to) {
        T* const columns = a + from * n + first;
        solve_columns(to - from, width, corner, columns, n);
        const BlockProduct product{.order = CblasColMajor,
                                   .b_transposed = CblasNoTrans,
                                   .rows = n - end,
                                   .columns = to - from,
                                   .depth = width,
                                   .step = n};
        product.subtract(corner + width, columns, columns + width);
      }
    });
  }
  return failure;
}

template blasint blocked_cholesky<float>(const HostKernelCall&, std::int64_t, float*);
template blasint blocked_cholesky<double>(const HostKernelCall&, std::int64_t, double*);
template blasint blocked_lu<float>(const HostKernelCall&, std::int64_t, float*, blasint*);
template blasint blocked_lu<double>(const HostKernelCall&, std::int64_t, double*, blasint*);

}  // namespace hearth::detail
