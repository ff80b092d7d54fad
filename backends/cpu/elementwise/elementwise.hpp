// The kernels of elementwise_rows(), each for the kinds named beside it. Private to backends/cpu.
// Threads: owner only.
#pragma once

#include "backends/cpu/machine/kernel_table.hpp"

namespace hearth::cpu {

[[nodiscard]] Status run_fill(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_arange(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_cast(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_unary(const KernelCall& call, KernelContext& context);  // neg … relu
[[nodiscard]] Status run_binary(const KernelCall& call,
                                KernelContext& context);  // add … relu_backward
[[nodiscard]] Status run_where(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_copy(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_concat(const KernelCall& call, KernelContext& context);
[[nodiscard]] Status run_slice_scatter(const KernelCall& call, KernelContext& context);

}  // namespace hearth::cpu
