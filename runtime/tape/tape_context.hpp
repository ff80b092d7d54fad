// What a thread knows of its tapes: which ones are open, and how much they may keep. Private to
// runtime. Threads: each has its own.
#pragma once

#include <cstdint>
#include <memory>

#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/recompute.hpp>

namespace hearth {

class Tape;

namespace detail {

/// Of one RecomputeScope, and of the tapes that were opened under it.
struct RecomputeState {
  std::int64_t kept_bytes = 0;
  RecomputeReport report;
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

}  // namespace detail

}  // namespace hearth
