// The functions of BasicDoorbell, for the programs that instantiate it: doorbell.cpp and the model
// checker. Threads: as in doorbell.hpp.
#pragma once

#include <hearth/streams/doorbell.hpp>

#include <bit>

namespace hearth {

static_assert(alignof(Lane) >= 16, "the flags live in a lane pointer's low bits");

template <class Policy>
typename BasicDoorbell<Policy>::Ring BasicDoorbell<Policy>::ring(Lane& lane) noexcept {
  std::uintptr_t old = word_.load(std::memory_order_acquire);
  while (true) {
    if ((old & kStopped) != 0) {
      return Ring::stopped;
    }
    Atomics::record_write(&lane.doorbell_next);
    lane.doorbell_next = std::bit_cast<Lane*>(old & ~kFlags);
    // Only one ringer wakes a sleeper without a deadline. It sets `timed`, because the actor will
    // look.
    const bool wake = (old & kFree) != 0 && (old & kTimed) == 0;
    const std::uintptr_t next =
        std::bit_cast<std::uintptr_t>(&lane) | (old & kFlags) | (wake ? kTimed : 0);
    if (word_.compare_exchange_weak(
            old, next, std::memory_order_acq_rel, std::memory_order_acquire)) {  // partner: take
      return wake ? Ring::wake : Ring::quiet;
    }
  }
}

template <class Policy>
bool BasicDoorbell<Policy>::ring_inbox() noexcept {
  const std::uintptr_t old = word_.fetch_or(kInbox, std::memory_order_acq_rel);  // partner: take
  return (old & kFree) != 0;  // control messages never wait for a timer
}

template <class Policy>
bool BasicDoorbell<Policy>::try_claim() noexcept {
  std::uintptr_t old = word_.load(std::memory_order_acquire);
  while ((old & kFree) != 0) {
    if (word_.compare_exchange_weak(
            old, old & ~kFree, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

template <class Policy>
typename BasicDoorbell<Policy>::Rung BasicDoorbell<Policy>::to_rung(std::uintptr_t word) noexcept {
  Lane* newest = std::bit_cast<Lane*>(word & ~kFlags);
  Lane* oldest = nullptr;
  while (newest != nullptr) {
    Atomics::record_write(&newest->doorbell_next);
    Lane* next = newest->doorbell_next;
    newest->doorbell_next = oldest;
    oldest = newest;
    newest = next;
  }
  return Rung{oldest, (word & kInbox) != 0};
}

template <class Policy>
typename BasicDoorbell<Policy>::Rung BasicDoorbell<Policy>::take() noexcept {
  return to_rung(word_.fetch_and(kTimed, std::memory_order_acq_rel));  // partners: ring, ring_inbox
}

template <class Policy>
typename BasicDoorbell<Policy>::Rung BasicDoorbell<Policy>::stop() noexcept {
  return to_rung(
      word_.exchange(kStopped, std::memory_order_acq_rel));  // partners: ring, ring_inbox
}

template <class Policy>
bool BasicDoorbell<Policy>::try_release() noexcept {
  std::uintptr_t old = word_.load(std::memory_order_acquire);
  while ((old & ~kTimed) == 0) {
    if (word_.compare_exchange_weak(
            old, old | kFree, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

template <class Policy>
void BasicDoorbell<Policy>::release_with_work() noexcept {
  word_.fetch_or(kFree, std::memory_order_acq_rel);  // partner: try_claim
}

template <class Policy>
bool BasicDoorbell<Policy>::set_timed(bool timed) noexcept {
  std::uintptr_t old = word_.load(std::memory_order_acquire);
  while (true) {
    if ((old & kFree) != 0 && (old & ~(kFree | kTimed)) != 0) {
      return false;
    }
    const std::uintptr_t next = timed ? (old | kTimed) : (old & ~kTimed);
    if (word_.compare_exchange_weak(
            old, next, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
  }
}

}  // namespace hearth
