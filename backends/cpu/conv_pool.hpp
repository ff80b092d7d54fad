// A convolution and the pool behind it in one pass: planes of the convolution, or rows of them, are
// made near the core, go through the convolution's epilogue there, and only what the pool makes of
// them reaches memory. Private to backends/cpu. Threads: owner only. Invariant: the bits of the two
// calls.
#pragma once

#include "kernel_table.hpp"

#include <hearth/backends/kernel.hpp>

namespace hearth::cpu {

/// Whether a pool of one result takes its input from the convolution that makes it: whole planes
/// fit near a core, or windows share no rows, so that rows of planes do.
[[nodiscard]] Support supports_conv_pool(const KernelCall& call, const KernelContext& context);

/// Requires a call that supports_conv_pool(). Errors: those of the epilogues' programs.
[[nodiscard]] Status run_conv_pool(const KernelCall& call, KernelContext& context);

}  // namespace hearth::cpu
