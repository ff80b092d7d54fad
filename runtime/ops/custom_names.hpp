// Which names a custom kernel may give its operands and numbers: no two of them and none that the
// text around it needs are the same. A pure function. Private to runtime. Threads: any.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>
#include <hearth/runtime/custom_kernel.hpp>

namespace hearth::detail {

/// Errors: ArgumentError, DtypeError for a number's type, at `loc`.
void check_names(const CustomKernelConfig& config, SourceLoc loc);

}  // namespace hearth::detail
