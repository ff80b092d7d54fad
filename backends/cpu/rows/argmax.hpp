// The kernel of argmax and argmin, registered by reduction_rows(). Private to backends/cpu.
// Threads: owner only.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

namespace hearth::cpu {

[[nodiscard]] Status run_argmax(const KernelCall& call, KernelContext& context);

}  // namespace hearth::cpu
