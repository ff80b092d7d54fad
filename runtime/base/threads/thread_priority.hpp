// Threads that give way to all others. Threads: any.
#pragma once

#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// Makes the calling thread, and threads that it starts later, give way to the program's others
/// (nice 10). One of those that wakes takes the core at once. A busy core still runs the thread for
/// a tenth of the time, so that it releases its locks. There is no way back.
///
/// Errors: unsupported, if the system refuses.
[[nodiscard]] Status lower_priority();

}  // namespace hearth
