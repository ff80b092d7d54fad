// A thread's open tapes and their limits. Private to runtime. Threads: each has its own.
#pragma once

#include <cstdint>
#include <memory>

#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/recompute.hpp>

namespace hearth::detail {

class Tape;

/// State of one RecomputeScope, shared with the tapes opened under it.
struct RecomputeState {
  std::int64_t kept_bytes = 0;
  RecomputeReport report;
};

/// The smallest values for which a tape without a scope compares recomputing with keeping. Smaller
/// ones stay in a cache, or are recomputed faster than the ops are submitted.
struct TrafficLimits {
  std::int64_t least_host_bytes = std::int64_t{1} << 20;
  std::int64_t least_device_bytes = std::int64_t{256} << 10;
  float additions_per_byte = 0;  ///< 0 = the value of each device
};

/// Pushes a tape on this thread's stack of open ones, until it closes.
void record_open(Tape& tape);
/// Removes closed tapes. Call after one has closed.
void forget_closed_tapes();
/// The innermost open tape of this thread, or null.
[[nodiscard]] IntrusivePtr<Tape> innermost_tape();

/// The state of this thread's innermost scope, or null.
[[nodiscard]] std::shared_ptr<RecomputeState> recompute_state();
/// Replaces the state and returns the previous one.
std::shared_ptr<RecomputeState> exchange_recompute_state(std::shared_ptr<RecomputeState> state);

/// The limits of tapes that this thread opens; tests of small programs set others.
[[nodiscard]] TrafficLimits traffic_limits();
/// Replaces the limits and returns the previous ones.
TrafficLimits exchange_traffic_limits(TrafficLimits limits);

}  // namespace hearth::detail
