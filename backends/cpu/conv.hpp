// The forward convolution of a call, for kernels that take its results as they are made. Private to
// backends/cpu. Threads: owner only.
#pragma once

#include "conv_taps.hpp"
#include "kernel_table.hpp"

#include <hearth/backends/kernel.hpp>

namespace hearth::cpu {

/// How such a call is cut.
[[nodiscard]] PlaneCut plane_cut(const KernelCall& call) noexcept;

/// Runs a call of kind conv2d: its results go to y, and each block of them on to the epilogue, or
/// to the sink alone, if there is one. The call's own epilogue and outputs are not looked at.
[[nodiscard]] Status run_convolution(const KernelCall& call,
                                     const TensorView& y,
                                     const EpilogueBlocks* epilogue,
                                     const PlaneSink& sink,
                                     KernelContext& context);

}  // namespace hearth::cpu
