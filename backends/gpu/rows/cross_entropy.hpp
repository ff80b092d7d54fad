// Cross entropy of logits and classes, and its gradient. Pure functions of the call. Threads: any.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// Encodes cross_entropy and cross_entropy_backward. A target outside the classes is reported in
/// the error cell.
///
/// Errors: out_of_memory.
[[nodiscard]] Status encode_cross_entropy(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Status encode_cross_entropy_backward(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Support supports_cross_entropy(const KernelCall& call, const DeviceLimits& limits);
/// True if the gradient may overwrite the probabilities: a thread writes the elements that it has
/// read.
[[nodiscard]] bool cross_entropy_may_alias(OpKind kind, int index) noexcept;

}  // namespace hearth::gpu
