// Norms for ops that are composed of them. Private to runtime. Threads: any.
#pragma once

#include <hearth/runtime/axes.hpp>

#include "runtime/ops/op_parts.hpp"

namespace hearth::detail {

/// The p-norm of a tensor in its compute type, with the gradient 0 at zeros. Requires a checked p.
[[nodiscard]] Tensor norm_of(
    const Tensor& x, double p, const Axes& axes, ReduceOptions options, const At& at);
/// Errors: ArgumentError for a power that is not above 0.
void require_power(double p, const Arg& x);

}  // namespace hearth::detail
