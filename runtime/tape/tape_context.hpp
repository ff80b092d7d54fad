// What a thread knows of its tapes: which ones are open, and how much they may keep. Private to
// runtime. Threads: each has its own.
#pragma once

#include <cstdint>
#include <memory>

#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/recompute.hpp>

namespace hearth::detail {

class Tape;

/// Of one RecomputeScope, and of the tapes that were opened under it.
struct RecomputeState {
  std::int64_t kept_bytes = 0;
  RecomputeReport report;
};

/// From which size on a tape without a scope asks whether making a value again costs less than
/// keeping it. Smaller ones stay in a cache, or take less time than it takes to submit the ops that
/// make them again.
struct TrafficLimits {
  std::int64_t least_host_bytes = std::int64_t{1} << 20;
  std::int64_t least_device_bytes = std::int64_t{256} << 10;
  float additions_per_byte = 0;  ///< 0: those of each device.
};

/// Puts a tape on top of this thread's open ones, until it closes.
void note_open(Tape& tape);
/// After one has closed.
void forget_closed_tapes();
/// The innermost open tape of this thread, or null.
[[nodiscard]] IntrusivePtr<Tape> innermost_tape();

/// That of the innermost scope of this thread, or null.
[[nodiscard]] std::shared_ptr<RecomputeState> recompute_state();
/// Replaces it, and returns the one before.
std::shared_ptr<RecomputeState> exchange_recompute_state(std::shared_ptr<RecomputeState> state);

/// Those of the tapes that this thread opens; tests of small programs have others.
[[nodiscard]] TrafficLimits traffic_limits();
/// Replaces them, and returns those before.
TrafficLimits exchange_traffic_limits(TrafficLimits limits);

}  // namespace hearth::detail
