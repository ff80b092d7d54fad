// Attention and its gradients, without storing the matrix of scores. Pure functions of the call.
// Threads: any.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// Errors: out_of_memory.
[[nodiscard]] Status encode_attention(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Status encode_attention_backward(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Support supports_attention(const KernelCall& call, const DeviceLimits& limits);

}  // namespace hearth::gpu
