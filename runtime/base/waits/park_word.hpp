// The word on which one thread sleeps and others wake it: a Parker without its system calls.
// Threads: announce(), has_token() and finish() by the owner; leave_token() by any.
// Invariant: a token is never lost: it ends the current wait or the next one. Both sides exchange
// the same word, so one of them sees the other. Either announce() finds the token of leave_token(),
// or leave_token() finds that the owner sleeps.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/atomics.hpp>

namespace hearth::detail {

template <class Atomics>
class ParkWord {
 public:
  static constexpr std::uint32_t kEmpty = 0;
  static constexpr std::uint32_t kParked = 1;
  static constexpr std::uint32_t kToken = 2;

  /// Announces that the owner is about to sleep. Returns false if a token was present; it is then
  /// consumed.
  [[nodiscard]] bool announce() noexcept {
    // Acquire half: the waker's accesses before leave_token() are visible.
    if (word_.exchange(kParked, std::memory_order_acq_rel) != kToken) {  // partner: leave_token
      return true;
    }
    word_.exchange(kEmpty, std::memory_order_acq_rel);
    return false;
  }
  /// Returns whether a token ends the sleep.
  [[nodiscard]] bool has_token() const noexcept {
    return word_.load(std::memory_order_acquire) == kToken;  // partner: leave_token
  }
  /// Ends the sleep. Returns whether a token was consumed.
  bool finish() noexcept { return word_.exchange(kEmpty, std::memory_order_acq_rel) == kToken; }
  /// Leaves a token. Returns true if the owner sleeps and must be woken.
  [[nodiscard]] bool leave_token() noexcept {
    return word_.exchange(kToken, std::memory_order_acq_rel) == kParked;  // partner: announce
  }

  /// The word that a sleeper waits on while it is kParked.
  [[nodiscard]] typename Atomics::template Atomic<std::uint32_t>& word() noexcept { return word_; }

 private:
  typename Atomics::template Atomic<std::uint32_t> word_{kEmpty};
};

}  // namespace hearth::detail
