// Calls into a backend or a memory strategy. An exception becomes a failure of the op, like a
// returned error. Private to runtime. Threads: the token holder.
#pragma once

#include <fmt/format.h>

#include <hearth/runtime/base/result.hpp>

#include "runtime/client/tickets.hpp"

namespace hearth {

/// Returns the status of `call`, or an exception as a status. `what` names the callee.
template <class Call>
[[gnu::always_inline]] inline Status guarded(const char* what, const Call& call) {
  try {
    return call();
  } catch (...) {
    return Error{.code = ErrorCode::kernel_failed,
                 .text = fmt::format("{} threw: {}", what, current_exception_text())};
  }
}

}  // namespace hearth
