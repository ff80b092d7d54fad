// Factorisations of one large matrix, whose blocks the device's cores share. Private to runtime.
// Threads: the one that runs the kernel, and the device's cores. Invariant: the blocks depend on
// sizes alone, so the number of cores changes no bit.
#pragma once

#include <hearth/runtime/base/custom_code.hpp>

#include <cblas.h>

#include <cstdint>

namespace hearth::detail {

/// Cholesky factor L in the lower triangle of a [n, n] in row-major order; leaves other numbers
/// above it. Returns 0, or the order of the first minor that is not positive.
template <class T>
[[nodiscard]] blasint blocked_cholesky(const HostKernelCall& call, std::int64_t n, T* a);

/// Factors and pivots of a [n, n] in column-major order, as LAPACK's getrf. Returns its info.
template <class T>
[[nodiscard]] blasint blocked_lu(const HostKernelCall& call, std::int64_t n, T* a, blasint* pivots);

}  // namespace hearth::detail
