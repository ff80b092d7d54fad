// The kernels of row_rows(): softmax and log_softmax with their gradients (softmax.cpp), cross
// entropy and its gradient (cross_entropy.cpp). Private to backends/cpu. Threads: owner only.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

namespace hearth::cpu {

[[nodiscard]] Status run_softmax(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_cross_entropy(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_cross_entropy_backward(const KernelCall& call, KernelContext& context);

}  // namespace hearth::cpu
