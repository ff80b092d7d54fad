// Ops of kind `expression`: captured functions and fused groups, pointwise or along rows. Threads:
// owner only.
#pragma once

#include <hearth/backends/kernel.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

[[nodiscard]] Status encode_expression(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Support supports_expression(const KernelCall& call, const DeviceLimits& limits);

}  // namespace hearth::gpu
