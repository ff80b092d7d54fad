// Signed 32-bit integers made 64-bit ones in a way that Mesa's optimiser leaves alone. Where it
// sees a widened integer beside a constant it compares the 32 bits instead, and Mesa 22.3 does that
// wrongly: `int64_t(x) < 0l` is false for each x on llvmpipe. For drivers in software, whatever the
// text: kernels, formulas and a program's own. Pure function of the words. Threads: any. Cost: one
// or two passes.
#pragma once

#include <hearth/backends/codegen/spirv_compiler.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// The module as it is where it orders no 64-bit integers; else with each widening as the sign's
/// word behind the number's. Vectors that are widened as a whole stay as they are.
///
/// Errors: internal, a module that is damaged.
[[nodiscard]] Result<SpirvModule> rewrite_widening(SpirvModule module);

}  // namespace hearth
