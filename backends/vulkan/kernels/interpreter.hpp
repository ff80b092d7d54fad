// One kernel for all pointwise kernels of floats and bools: it reads what they compute as a program
// of some words a node. So a group, or an op, whose own pipeline is being made runs at once; by
// memory that threads do not share it is some times slower. What it cannot say waits, as before:
// integers, f64, random numbers, rows, failures, guards. Pure functions. Threads: any.
#pragma once

#include <hearth/streams/kernel/expression.hpp>

#include "backends/vulkan/kernel_encoder.hpp"

namespace hearth::vulkan {

inline constexpr std::uint32_t kInterpreterThreads = 256;  ///< Of a workgroup.

/// Whether that is done at all. Software drivers take long to compile the interpreter itself.
[[nodiscard]] inline bool interprets(const DeviceLimits& limits) noexcept {
  return (!limits.is_cpu && limits.most_group_threads >= kInterpreterThreads) ||
         limits.interprets_always;
}

/// Dispatches the call by the interpreter, if that can say the kernel, and is there. `parameters`:
/// the kernel's. False: nothing was dispatched.
/// Errors: those of KernelEncoder::dispatch.
[[nodiscard]] Result<bool> interpret(const KernelCall& call,
                                     const KernelIR& kernel,
                                     std::span<const ScalarAttributes> parameters,
                                     KernelEncoder& encoder);

}  // namespace hearth::vulkan
