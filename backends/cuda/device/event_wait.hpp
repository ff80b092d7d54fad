// Waits for the device by looking: no call of CUDA's that waits has a deadline. Threads: any.
#pragma once

#include <algorithm>
#include <chrono>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::cuda {

/// Calls `look`, a Result<bool>, until it is true or fails. Returns false after `limit`.
///
/// A parked thread wakes some 55 us late. So the wait looks without a pause at first, and then
/// pauses for a 64th of the time that it has waited.
template <class Look>
[[nodiscard]] Result<bool> look_until(std::chrono::nanoseconds limit, const Look& look) {
  constexpr std::chrono::nanoseconds kBusy = std::chrono::microseconds(60);
  constexpr std::chrono::nanoseconds kMostPause = std::chrono::microseconds(500);
  const hearth::detail::ThreadContext& thread = hearth::detail::current_context();
  const hearth::detail::TimePoint begin = thread.clock().now();
  const Deadline deadline = Deadline::in(limit);
  while (true) {
    HEARTH_TRY(const bool is_done, look());
    if (is_done || deadline.has_passed()) {
      return is_done;
    }
    const std::chrono::nanoseconds waited = thread.clock().now() - begin;
    if (waited > kBusy) {
      thread.parker().park(std::min(Deadline::in(std::min(waited / 64, kMostPause)), deadline));
    }
  }
}

}  // namespace hearth::cuda
