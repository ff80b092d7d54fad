// conv2d and its gradients. Threads: owner only.
#pragma once

#include <hearth/backends/kernel.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// conv2d, conv2d_backward_input, conv2d_backward_weight.
[[nodiscard]] Status encode_convolution(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Support supports_convolution(const KernelCall& call, const DeviceLimits& limits);

}  // namespace hearth::gpu
