#include <hearth/streams/doorbell.hpp>

#include <bit>

namespace hearth {
namespace {

std::uintptr_t to_word(Lane* lane) noexcept {
  return std::bit_cast<std::uintptr_t>(lane);
}
Lane* to_lane(std::uintptr_t word) noexcept {
  return std::bit_cast<Lane*>(word);
}

}  // namespace

static_assert(alignof(Lane) >= 16, "the flags live in a lane pointer's low bits");

Doorbell::Ring Doorbell::ring(Lane& lane) noexcept {
  std::uintptr_t old = word_.load(std::memory_order_acquire);
  while (true) {
    if ((old & kStopped) != 0) {
      return Ring::stopped;
    }
    lane.doorbell_next = to_lane(old & ~kFlags);
    // A deep sleeper is woken by one ringer only: that one says "timed" in its name, since the
    // actor will look.
    const bool wake = (old & kFree) != 0 && (old & kTimed) == 0;
    const std::uintptr_t next = to_word(&lane) | (old & kFlags) | (wake ? kTimed : 0);
    if (word_.compare_exchange_weak(
            old, next, std::memory_order_acq_rel, std::memory_order_acquire)) {  // partner: take
      return wake ? Ring::wake : Ring::quiet;
    }
  }
}

bool Doorbell::ring_inbox() noexcept {
  const std::uintptr_t old = word_.fetch_or(kInbox, std::memory_order_acq_rel);  // partner: take
  return (old & kFree) != 0;  // control messages never wait for a timer
}

bool Doorbell::try_claim() noexcept {
  std::uintptr_t old = word_.load(std::memory_order_acquire);
  while ((old & kFree) != 0) {
    if (word_.compare_exchange_weak(
            old, old & ~kFree, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

Doorbell::Rung Doorbell::to_rung(std::uintptr_t word) noexcept {
  Lane* newest = to_lane(word & ~kFlags);
  Lane* oldest = nullptr;
  while (newest != nullptr) {
    Lane* next = newest->doorbell_next;
    newest->doorbell_next = oldest;
    oldest = newest;
    newest = next;
  }
  return Rung{oldest, (word & kInbox) != 0};
}

Doorbell::Rung Doorbell::take() noexcept {
  return to_rung(word_.fetch_and(kTimed, std::memory_order_acq_rel));  // partners: ring, ring_inbox
}

Doorbell::Rung Doorbell::stop() noexcept {
  return to_rung(
      word_.exchange(kStopped, std::memory_order_acq_rel));  // partners: ring, ring_inbox
}

bool Doorbell::try_release() noexcept {
  std::uintptr_t old = word_.load(std::memory_order_acquire);
  while ((old & ~kTimed) == 0) {
    if (word_.compare_exchange_weak(
            old, old | kFree, std::memory_order_acq_rel, std::memory_order_acquire)) {
      return true;
    }
  }
  return false;
}

void Doorbell::release_with_work() noexcept {
  word_.fetch_or(kFree, std::memory_order_acq_rel);  // partner: try_claim
}

bool Doorbell::set_timed(bool timed) noexcept {
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
