// HEARTH_ASSERT: checks for the library's own bugs, never for a user's input. On in dev, asan and
// tsan builds.
#pragma once

#include <hearth/runtime/base/source_loc.hpp>

namespace hearth::detail {
[[noreturn]] void assert_failed(const char* condition,
                                const char* message,
                                SourceLoc location) noexcept;
}  // namespace hearth::detail

#ifdef HEARTH_ASSERTS
#define HEARTH_ASSERT(condition, message)                                                   \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      ::hearth::detail::assert_failed(#condition, message, ::hearth::SourceLoc::current()); \
    }                                                                                       \
  } while (false)
#else
#define HEARTH_ASSERT(condition, message) static_cast<void>(0)
#endif
