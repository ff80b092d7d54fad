// Exceptions of a program's own function on a thread of the library. Decides whether its caller
// receives the exception itself, or a failure of that thread with the exception as its cause.
// Header-internal. Stateless. Threads: any.
#pragma once

#include <hearth/runtime/base/error.hpp>

namespace hearth::detail {

/// Returns whether the error alone describes the failure. False if a device, a deadline or the
/// whole call failed: the waiting caller must then learn that a thread failed.
[[nodiscard]] inline bool describes_failure(const Error& error) noexcept {
  switch (error.code) {
    case ErrorCode::device_lost:
    case ErrorCode::device_closed:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::cancelled:
    case ErrorCode::worker_failed:
    case ErrorCode::collective_failed:
    case ErrorCode::internal:
      return false;
    default:
      return !error.cause || error.cause->code == ErrorCode::worker_failed ||
             describes_failure(*error.cause);
  }
}

}  // namespace hearth::detail
