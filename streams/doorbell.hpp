// The doorbell: one word with three facts: whether a device's token is free, which lanes were rung,
// and whether a ring must wake the actor. Ringing links a lane into an intrusive stack with one
// CAS; the token holder takes the whole stack at once.
// Invariants: (1) the token has at most one holder: the one CAS that claims it clears `free`; (2)
// releasing the token fails while lanes are rung; (3) a ring that finds `free` without `timed`
// wakes the actor's thread, because no other thread would look.
// `timed` means that the actor's thread sleeps with a short deadline and then looks by itself. So a
// caller that is about to read a result can take the token without a wake. A wake takes 34 µs
// across cores (design study M3).
#pragma once

#include <cstdint>

#include <hearth/streams/lane.hpp>

namespace hearth {

template <class Policy>
class BasicDoorbell {
 public:
  using Lane = BasicLane<Policy>;
  enum class Ring : std::uint8_t {
    quiet,    ///< The token is held, or the actor's thread looks by itself.
    wake,     ///< The actor's thread must be woken.
    stopped,  ///< The doorbell has stopped: the ringing thread is now the lane's consumer.
  };
  /// Links a lane whose needs_ring() returned true. Threads: any.
  [[nodiscard]] Ring ring(Lane& lane) noexcept;
  /// Notifies the holder of new messages in its inbox. Returns true if the actor's thread must be
  /// woken. Threads: any.
  [[nodiscard]] bool ring_inbox() noexcept;

  /// Takes the token if it is free. Threads: any.
  [[nodiscard]] bool try_claim() noexcept;
  /// Returns whether the token is free. A hint. Threads: any.
  [[nodiscard]] bool is_free() const noexcept {
    return (word_.load(std::memory_order_acquire) & kFree) != 0;  // partner: try_release
  }

  /// Returns whether something was rung that take() has not returned yet. Threads: token holder
  /// only.
  [[nodiscard]] bool has_rung() const noexcept {
    return (word_.load(std::memory_order_acquire) & ~kTimed) != 0;  // partners: ring, ring_inbox
  }

  struct Rung {
    Lane* lanes;  ///< Oldest ring first, linked by doorbell_next.
    bool inbox;
  };
  /// Returns everything rung since the last call. Threads: token holder only.
  [[nodiscard]] Rung take() noexcept;
  /// Releases the token; fails if something was rung meanwhile. Threads: token holder only.
  [[nodiscard]] bool try_release() noexcept;
  /// Releases the token although work is left; the caller then wakes the actor's thread. Threads:
  /// token holder only.
  void release_with_work() noexcept;

  /// Keeps the token for ever and refuses further rings. Returns the earlier rings. Threads: token
  /// holder only.
  [[nodiscard]] Rung stop() noexcept;

  /// Announces that the actor's thread is about to sleep, with a deadline (true) or without one
  /// (false). Fails if something was rung and the token is free; the caller then looks again.
  /// Threads: the actor's thread only.
  [[nodiscard]] bool set_timed(bool timed) noexcept;

 private:
  static constexpr std::uintptr_t kFree = 1;
  static constexpr std::uintptr_t kTimed = 2;
  static constexpr std::uintptr_t kInbox = 4;
  static constexpr std::uintptr_t kStopped = 8;
  static constexpr std::uintptr_t kFlags = 15;

  [[nodiscard]] static Rung to_rung(std::uintptr_t word) noexcept;

  using Atomics = typename Policy::Atomics;
  typename Atomics::template Atomic<std::uintptr_t> word_{kFree};
};

/// The doorbell of programs.
using Doorbell = BasicDoorbell<LanePolicy>;
extern template class BasicDoorbell<LanePolicy>;

}  // namespace hearth
