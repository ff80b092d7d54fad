// Calls into a backend or a memory strategy, whose exceptions are failures of the op like what they
// return. Private to runtime. Threads: the token holder.
#pragma once

#include <fmt/format.h>

#include <hearth/runtime/base/result.hpp>

#include "runtime/client/tickets.hpp"

namespace hearth {

/// What `call` returns, or what it throws, as a status. `what` made it.
template <class Call>
[[gnu::always_inline]] inline Status guarded(const char* what, const Call& call) {
  try {
    return call();
  } catch (...) {
    return Error{.code = ErrorCode::kernel_failed,
                 .text = fmt::format("{} threw: {}", what, what_was_thrown())};
  }
}

}  // namespace hearth
