// Ops of the kind `expression`: from calls of the seam to launches of run_expression(). Private to
// backends/cpu. Threads: owner only.
#pragma once

#include "kernel_table.hpp"

namespace hearth::cpu {

[[nodiscard]] Support supports_expression_call(const KernelCall& call, KernelContext& context);

/// One launch over calls of one expression. Where it fails, none of them counts as run.
[[nodiscard]] Status run_expression_batch(std::span<const KernelCall> calls,
                                          KernelContext& context);

/// How many of the calls, from the first on, are of one expression; 1 for another kind.
[[nodiscard]] std::size_t equal_expressions(std::span<const KernelCall> calls) noexcept;

}  // namespace hearth::cpu
