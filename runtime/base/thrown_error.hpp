// What a program's own function threw on a thread of the library's: whether its caller catches it
// as if the function had been called there, or as the cause of a failure of that thread.
// Header-internal. Stateless. Threads: any.
#pragma once

#include <hearth/runtime/base/error.hpp>

namespace hearth::detail {

/// Whether the error says all that has happened. Not so where a device, a deadline or the call as a
/// whole is given up: whoever waits has to know that it was a thread that failed.
[[nodiscard]] inline bool tells_all(const Error& error) noexcept {
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
             tells_all(*error.cause);
  }
}

}  // namespace hearth::detail
