// Waits for the device by looking: no call of CUDA's that waits has a deadline. Threads: any.
#pragma once

#include <algorithm>
#include <chrono>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::cuda {

/// Calls `look`, a Result<bool>, until it is true or fails. Returns false after `limit`. Looks
/// without a pause at first, since a parked thread wakes some 40 us late.
template <class Look>
[[nodiscard]] Result<bool> look_until(std::chrono::nanoseconds limit, const Look& look) {
  constexpr std::chrono::nanoseconds kBusy = std::chrono::microseconds(60);
  constexpr std::chrono::nanoseconds kMostPause = std::chrono::microseconds(500);
  const Deadline deadline = Deadline::in(limit);
  const Deadline busy_end = Deadline::in(kBusy);
  std::chrono::nanoseconds pause = std::chrono::microseconds(5);
  while (true) {
    HEARTH_TRY(const bool is_done, look());
    if (is_done || deadline.has_passed()) {
      return is_done;
    }
    if (busy_end.has_passed()) {
      hearth::detail::current_context().parker().park(std::min(Deadline::in(pause), deadline));
      pause = std::min(2 * pause, kMostPause);
    }
  }
}

}  // namespace hearth::cuda
