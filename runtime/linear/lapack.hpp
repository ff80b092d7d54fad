// Calls of OpenBLAS's LAPACK, of f32 and f64. Matrices are in column-major order, as LAPACK has
// them; each call runs on the calling thread alone. Private to runtime. Threads: any.
#pragma once

#include "runtime/ops/op_parts.hpp"

#include <cblas.h>

#include <string_view>
#include <vector>

namespace hearth::detail::lapack {

/// Errors: unsupported, under the name of this op, if OpenBLAS is not its pthread build: only that
/// one takes calls of several threads at a time.
void require_usable(std::string_view op, const At& at);

// `info` of LAPACK is the result: 0; above 0, why there is no result.

/// Cholesky factor U of Uᵀ·U in the upper triangle; the lower one is not read.
template <class T>
[[nodiscard]] blasint potrf(blasint n, T* a, blasint step);
/// L, with ones on its diagonal, and U of P·L·U; pivots count from 1.
template <class T>
[[nodiscard]] blasint getrf(blasint rows, blasint columns, T* a, blasint step, blasint* pivots);
/// Swaps rows first to last (from 1) of these columns with their pivots.
template <class T>
void laswp(blasint columns, T* a, blasint step, blasint first, blasint last, const blasint* pivots);
/// Reflectors and R of a [rows, columns].
template <class T>
void geqrf(blasint rows, blasint columns, T* a, T* tau, std::vector<T>& work);
/// The first columns of Q from `count` reflectors, in place.
template <class T>
void orgqr(blasint rows, blasint columns, blasint count, T* a, const T* tau, std::vector<T>& work);
/// Eigenvalues in ascending order, and eigenvectors in place of a, whose upper triangle is read.
template <class T>
[[nodiscard]] blasint syevd(blasint n, T* a, T* values, std::vector<T>& work);
/// Singular values in descending order, left vectors and transposed right ones: the first
/// min(rows, columns), or all. Overwrites a.
template <class T>
[[nodiscard]] blasint gesdd(bool is_full,
                            blasint rows,
                            blasint columns,
                            T* a,
                            T* values,
                            T* left,
                            T* right,
                            std::vector<T>& work);

/// b = op(a)⁻¹·b of a triangular a [n, n] and b [n, columns], both in row-major order.
struct Triangle {
  bool is_upper = false;
  bool is_transposed = false;
  bool has_unit_diagonal = false;
};
template <class T>
void trsm(Triangle triangle, blasint n, blasint columns, const T* a, T* b, blasint step);

}  // namespace hearth::detail::lapack
