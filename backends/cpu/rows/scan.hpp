// The kernel of cumsum and its kin, registered by reduction_rows(). Private to backends/cpu.
// Threads: owner only.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

namespace hearth::cpu {

[[nodiscard]] Status run_scan(const KernelCall& call, KernelContext& context);

}  // namespace hearth::cpu
