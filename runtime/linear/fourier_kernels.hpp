// The host ops of Fourier transforms over one axis of row-major tensors, axis 1. Each is made once
// and shared. Private to runtime. Threads: any.
#pragma once

#include "host_op.hpp"

#include <cstdint>

namespace hearth::detail {

/// scale·Σ x_j·exp(-2πi·jk/n) of x [outer, n, inner, 2]; the inverse has the other sign.
[[nodiscard]] Tensor complex_transform(bool is_inverse,
                                       const Tensor& x,
                                       double scale,
                                       const At& at);
/// The first n/2 + 1 numbers of the transform of a real x [outer, n, inner], times scale:
/// [outer, n/2 + 1, inner, 2]. All but the first, and for an even n the last, are also multiplied
/// by `interior`.
[[nodiscard]] Tensor half_transform(const Tensor& x, double scale, double interior, const At& at);
/// The real [outer, n, inner] whose transform has these first n/2 + 1 numbers, times n·scale. The
/// imaginary part of the first and, for an even n, of the last are ignored. The others are also
/// multiplied by `interior`.
[[nodiscard]] Tensor real_from_half(
    const Tensor& x, std::int64_t n, double scale, double interior, const At& at);

}  // namespace hearth::detail
