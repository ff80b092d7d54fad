// Reductions over any axes, and positions of maxima and minima. Pure functions of the call.
// Threads: any.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// Encodes reduce_sum, reduce_mean, reduce_max, reduce_min, reduce_prod, argmax, argmin.
///
/// Errors: invalid_argument, no elements to choose from; out_of_memory.
[[nodiscard]] Status encode_reduction(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Support supports_reduction(const KernelCall& call, const DeviceLimits& limits);

}  // namespace hearth::gpu
