// Threads that run only where nothing else wants the core. Threads: any.
#pragma once

#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// Lets the calling thread, and threads that it starts later, run only on cores that no other
/// thread wants (SCHED_IDLE). There is no way back on some systems.
///
/// Errors: unsupported, if the system refuses.
[[nodiscard]] Status take_idle_priority();

}  // namespace hearth
