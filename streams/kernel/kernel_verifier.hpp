// Checks that a KernelIR is well formed, so that printers and interpreters need not check again.
// Every producer of kernels is tested with it; every reader of external kernels calls it first.
// Pure function. Threads: any.
#pragma once

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth {

/// Verifies a kernel. Reports the first broken rule, in the order of the text.
///
/// Errors: invalid_argument: "kernel: node %3 add: operands of one type: f32 and i64", with the
/// place, the rule and the values that break it.
[[nodiscard]] Status verify(const KernelIR& kernel);

}  // namespace hearth
