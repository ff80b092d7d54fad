// The forward convolution of a call, for kernels that consume its results as they are computed.
// Private to backends/cpu. Threads: owner only.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"
#include "conv_taps.hpp"

#include <hearth/backends/kernel.hpp>

namespace hearth::cpu {

/// Returns the cut of a conv2d call into planes.
[[nodiscard]] PlaneCut plane_cut(const KernelCall& call) noexcept;

/// Runs a call of kind conv2d. The results go to y, and each finished block to the epilogue; a
/// sink, if set, receives them instead. Ignores the call's own epilogue and outputs.
[[nodiscard]] Status run_convolution(const KernelCall& call,
                                     const TensorView& y,
                                     const EpilogueBlocks* epilogue,
                                     const PlaneSink& sink,
                                     KernelContext& context);

}  // namespace hearth::cpu
