// Convolutions with few output channels a group, such as depthwise ones, by vectors along rows.
// Runs the forward pass, and all stride phases of the input gradient at once. Threads: owner only;
// forks in the arena. Invariant: an output element is the sum that run_tap_convolution() makes,
// with the same bits.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"
#include "conv_taps.hpp"

#include <cstdint>
#include <span>

namespace hearth::cpu {

/// Whether the choice or the rule selects this form, and the convolution allows it. `phases`: one
/// convolution, or the stride phases of an input gradient, which differ in taps and places of y.
[[nodiscard]] bool runs_by_windows(std::span<const TapConvolution> phases,
                                   const TapChoice& choice) noexcept;

/// Requires runs_by_windows().
[[nodiscard]] Status run_window_convolution(std::span<const TapConvolution> phases,
                                            const TapChoice& choice,
                                            KernelContext& context);
/// Returns the plan on one thread. Requires runs_by_windows().
[[nodiscard]] TapPlan plan_window_convolution(std::span<const TapConvolution> phases,
                                              const TapChoice& choice,
                                              const KernelContext& context);

}  // namespace hearth::cpu
