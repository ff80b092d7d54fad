// matmul: products of the last two axes, over a batch that broadcasts. Threads: owner only.
#pragma once

#include <hearth/backends/kernel.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

[[nodiscard]] Status encode_matmul(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Support supports_matmul(const KernelCall& call, const DeviceLimits& limits);

}  // namespace hearth::gpu
