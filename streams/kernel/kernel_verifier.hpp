// Whether a KernelIR is well formed, so that printers and interpreters need not look again.
// Whatever makes one is tested with it; whatever reads one from outside calls it first. Pure
// function. Threads: any.
#pragma once

#include <hearth/runtime/base/result.hpp>
#include <hearth/streams/kernel/kernel_ir.hpp>

namespace hearth {

/// Errors: invalid_argument: "kernel: node %3 add: operands of one type: f32 and i64", which names
/// the place, the rule and the values that break it. The first one found, from the top of the text
/// down.
[[nodiscard]] Status verify(const KernelIR& kernel);

}  // namespace hearth
