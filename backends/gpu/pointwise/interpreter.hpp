// One kernel that runs any pointwise kernel of floats and bools. It reads the computation as a
// program of some words a node. A group, or an op, whose own pipeline is in the making thus runs at
// once. The kernel keeps values in thread-private memory, and is several times slower. Kernels that
// it does not support wait for their pipelines: integers, f64, random numbers, rows, failures,
// guards. Pure functions. Threads: any.
#pragma once

#include <hearth/streams/kernel/expression.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

inline constexpr std::uint32_t kInterpreterThreads = 256;  ///< Threads of a workgroup.

/// True if the device uses the interpreter. Software drivers take long to compile the interpreter
/// itself.
[[nodiscard]] inline bool interprets(const DeviceLimits& limits) noexcept {
  return (!limits.is_cpu && limits.most_group_threads >= kInterpreterThreads) ||
         limits.interprets_always;
}

/// Dispatches the call by the interpreter, if it supports the kernel and is compiled. `parameters`
/// are the kernel's. Returns false if nothing was dispatched.
/// Errors: those of KernelEncoder::dispatch.
[[nodiscard]] Result<bool> interpret(const KernelCall& call,
                                     const KernelIR& kernel,
                                     std::span<const ScalarAttributes> parameters,
                                     KernelEncoder& encoder);

}  // namespace hearth::gpu
