// Pools over height and width, and their gradients. Private to backends/gpu. Threads: owner
// only.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

[[nodiscard]] Support supports_pooling(const KernelCall& call, const DeviceLimits& limits);
/// Encodes max_pool2d and avg_pool2d.
[[nodiscard]] Status encode_pool(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Status encode_max_pool_backward(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Status encode_avg_pool_backward(const KernelCall& call, KernelEncoder& encoder);

}  // namespace hearth::gpu
