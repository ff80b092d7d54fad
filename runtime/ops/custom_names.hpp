// Checks the names of a custom kernel's operands and numbers: they must be distinct, and must not
// clash with names of the generated text. A pure function. Private to runtime. Threads: any.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/custom_kernel.hpp>

namespace hearth::detail {

/// Checks all names of the kernel. Errors: ArgumentError, DtypeError for a number's type, at `loc`.
void check_names(const CustomKernelConfig& config, SourceLoc loc);

}  // namespace hearth::detail
