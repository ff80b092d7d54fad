// Ops of the kind `expression`: converts calls of the seam to launches of run_expression(). Private
// to backends/cpu. Threads: owner only.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

namespace hearth::cpu {

[[nodiscard]] Support supports_expression_call(const KernelCall& call, KernelContext& context);

/// Launches all calls of one expression at once. If the launch fails, no call counts as run.
[[nodiscard]] Status run_expression_batch(std::span<const KernelCall> calls,
                                          KernelContext& context);

/// Returns the number of leading calls with the same expression; 1 for another kind.
[[nodiscard]] std::size_t equal_expressions(std::span<const KernelCall> calls) noexcept;

}  // namespace hearth::cpu
