// Rewrites the widening of signed 32-bit integers to 64 bits into a form that Mesa's optimiser
// leaves alone. Mesa compares 32 bits where a widened integer meets a constant, and Mesa 22.3 does
// that wrongly: `int64_t(x) < 0l` is false for each x on llvmpipe. Applies to drivers in software
// and to every text: kernels, formulas and a program's own. Pure function of the words. Threads:
// any. Cost: one or two passes.
#pragma once

#include <hearth/runtime/base/result.hpp>

#include "spirv_compiler.hpp"

namespace hearth::vulkan {

/// Returns the module unchanged if it orders no 64-bit integers. Else each widening becomes a pair
/// of words, the number and its sign. Widenings of whole vectors stay unchanged.
///
/// Errors: internal, if the module is damaged.
[[nodiscard]] Result<SpirvModule> rewrite_widening(SpirvModule module);

}  // namespace hearth::vulkan
