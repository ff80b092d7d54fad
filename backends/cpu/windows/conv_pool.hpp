// A convolution and the pool after it in one pass. Planes of the convolution, or rows of them, stay
// in a core's cache and pass through the convolution's epilogue there. Only the pooled results
// reach memory. Private to backends/cpu. Threads: owner only. Invariant: the bits equal those of
// two separate calls.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

#include <hearth/backends/kernel.hpp>

namespace hearth::cpu {

/// Whether a pool of one result can take its input from its convolution. Either whole planes fit in
/// a core's cache, or windows share no rows, so that rows of planes do.
[[nodiscard]] Support supports_conv_pool(const KernelCall& call, const KernelContext& context);

/// Requires supports_conv_pool(). Errors: those of the epilogues' programs.
[[nodiscard]] Status run_conv_pool(const KernelCall& call, KernelContext& context);

}  // namespace hearth::cpu
