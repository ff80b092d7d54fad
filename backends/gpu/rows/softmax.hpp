// Softmax, its logarithm and their gradients along one axis. Pure functions of the call. Threads:
// any.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

/// Encodes softmax, log_softmax, softmax_backward, log_softmax_backward.
///
/// Errors: out_of_memory.
[[nodiscard]] Status encode_softmax(const KernelCall& call, KernelEncoder& encoder);
[[nodiscard]] Support supports_softmax(const KernelCall& call, const DeviceLimits& limits);
/// True for output 0 over any input: a thread writes the elements that it has read, after the whole
/// line was read.
[[nodiscard]] bool softmax_may_alias(OpKind kind, int index) noexcept;

}  // namespace hearth::gpu
