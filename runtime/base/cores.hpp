// The processor cores that this process may use, and pinning threads to them.
// Threads: any.
#pragma once

#include <span>
#include <vector>

#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// The cores that the process may run on, ascending. Never empty.
[[nodiscard]] std::vector<int> available_cores();

/// Restricts the calling thread to these cores.
/// Errors: invalid_argument when the list is empty or none of them can be had.
Status pin_current_thread(std::span<const int> cores);

}  // namespace hearth
