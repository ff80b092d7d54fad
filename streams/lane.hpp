// A lane: the single-producer single-consumer ring of op records between one stream and one device.
// The producer is the thread that uses the stream; the consumer is the holder of the device's
// token.
// Invariants: (1) records leave in submission order; (2) a record's sequence is its number in the
// lane, from 1, so consumed() ≥ s means that record s is done; (3) blobs are in a byte ring of
// their own and are freed with their record; (4) `rung` is not 0 while the lane is linked in the
// doorbell or held by the consumer; both sides change it by exchange(acq_rel).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <hearth/runtime/base/atomics.hpp>
#include <hearth/runtime/base/ids.hpp>
#include <hearth/runtime/base/intrusive_ptr.hpp>
#include <hearth/runtime/base/parker.hpp>
#include <hearth/streams/op_record.hpp>

namespace hearth {

/// Policy of a lane in programs; the model checker (tests/model) has its own, with small rings.
struct LanePolicy {
  using Atomics = detail::StdAtomics;
  using WaitingParker = detail::Parker;
  static constexpr std::uint64_t kCapacity = 256;           ///< records
  static constexpr std::uint64_t kBlobBytes = 64U * 1024U;  ///< bytes of the overflow ring
  /// Interval at which a consumer checks for a waiting producer; divides kCapacity / 2.
  static constexpr std::uint64_t kLookEvery = 16;

  [[nodiscard]] static WaitingParker& current_parker() noexcept;
};

template <class Policy>
class BasicLane {
 public:
  static constexpr std::uint64_t kCapacity = Policy::kCapacity;    ///< records
  static constexpr std::uint64_t kBlobBytes = Policy::kBlobBytes;  ///< bytes of the overflow ring
  static constexpr std::uint64_t kLookEvery = Policy::kLookEvery;

  explicit BasicLane(LaneId id);
  BasicLane(const BasicLane&) = delete;
  BasicLane& operator=(const BasicLane&) = delete;
  ~BasicLane();

  [[nodiscard]] LaneId id() const noexcept { return id_; }

  // ---- producer ----
  /// Copies the record and its blob into the lane and sets the record's sequence. Returns false if
  /// there is no room. A blob above a quarter of the overflow ring goes to the heap. Threads:
  /// producer only.
  [[nodiscard]] bool try_push(OpRecord& record, std::span<const std::byte> blob);
  /// Returns whether the lane must be linked into the doorbell after a push. Threads: producer
  /// only.
  [[nodiscard]] bool needs_ring() noexcept {
    return rung_.exchange(1, std::memory_order_acq_rel) == 0;  // partner: finish_turn
  }
  /// Marks that the stream is gone and no more pushes come. Returns true if the lane must be rung
  /// once more to notify the actor. Threads: producer only, as its last use.
  [[nodiscard]] bool orphan() noexcept {
    return rung_.exchange(2, std::memory_order_acq_rel) == 0;  // partner: finish_turn
  }
  /// Returns the sequence of the last record pushed. Threads: producer only.
  [[nodiscard]] std::uint64_t pushed() const noexcept { return tail_local_; }
  /// Returns whether half of the ring and of the overflow ring is free: then any record fits.
  /// Threads: producer only.
  [[nodiscard]] bool has_room() const noexcept {
    return backlog() <= kCapacity / 2 && blob_tail_ - blob_head_.load(std::memory_order_acquire) <=
                                             kBlobBytes / 2;  // partner: pop
  }
  /// Announces that the producer is about to wait until has_room(). Returns false if there is room
  /// already. Threads: producer only.
  [[nodiscard]] bool announce_waiting();
  /// Returns an upper bound of the records pushed and not yet consumed. Threads: producer only.
  [[nodiscard]] std::uint64_t backlog() const noexcept { return tail_local_ - consumed(); }

  // ---- consumer ----
  /// Returns the oldest record, or nullptr. Threads: token holder only.
  [[nodiscard]] const OpRecord* front() noexcept { return peek(0); }
  /// Returns the blob of front(). Threads: token holder only.
  [[nodiscard]] const std::byte* front_blob() const noexcept { return peek_blob(0); }
  /// Returns the record `ahead` places behind the oldest, or nullptr. Threads: token holder only.
  [[nodiscard]] const OpRecord* peek(std::uint64_t ahead) noexcept;
  /// Returns the record `ahead` places behind the oldest, which must exist. Threads: token holder
  /// only.
  [[nodiscard]] const OpRecord& at(std::uint64_t ahead) const noexcept {
    const OpRecord& record = (*records_)[(consumed() + ahead) % kCapacity];
    Atomics::record_read(&record);
    return record;
  }
  /// Returns the blob of peek(ahead), which must exist. Threads: token holder only.
  [[nodiscard]] const std::byte* peek_blob(std::uint64_t ahead) const noexcept {
    const OpRecord& record = (*records_)[(consumed() + ahead) % kCapacity];
    return record.blob_size_bytes == 0 ? nullptr : blob_of(record);
  }
  /// Removes front(), and wakes a producer that waits for room. Threads: token holder only.
  void pop() noexcept;
  /// Wakes a producer that still waits although there is room, because pop() does not check at each
  /// record. Called when the consumer leaves a lane that is not empty. Threads: token holder only.
  void look_for_producer() noexcept;
  enum class Turn : std::uint8_t {
    /// No further record; the consumer has released the lane until it is rung or taken back.
    empty,
    more,  ///< Further records arrived; the consumer keeps the lane.
    /// Further records arrived, and the producer rang or is about to: the doorbell has the lane.
    rung_again,
  };
  /// Ends a turn of a lane whose only records are the `looked` oldest, which stay in it. Threads:
  /// token holder only.
  [[nodiscard]] Turn finish_turn(std::uint64_t looked = 0) noexcept;
  /// Takes back a lane that finish_turn() released. Returns false if it was rung: the doorbell has
  /// it or is about to. Threads: token holder only.
  [[nodiscard]] bool reclaim() noexcept {
    const std::uint32_t old = rung_.exchange(1, std::memory_order_acq_rel);  // partner: needs_ring
    is_orphaned_ = is_orphaned_ || old == 2;
    return old == 0;
  }
  /// Returns whether the stream is gone. After finish_turn() returned `empty`, its thread no longer
  /// touches the lane. Threads: token holder only.
  [[nodiscard]] bool is_orphaned() const noexcept { return is_orphaned_; }

  // ---- any thread ----
  /// Returns the number of records consumed so far.
  [[nodiscard]] std::uint64_t consumed() const noexcept {
    return head_.load(std::memory_order_acquire);  // partner: pop
  }
  /// Returns the number of records pushed so far, as visible to other threads.
  [[nodiscard]] std::uint64_t pushed_seen() const noexcept {
    return tail_.load(std::memory_order_acquire);  // partner: try_push
  }

  BasicLane* doorbell_next =
      nullptr;  ///< Link in the doorbell's stack; written by the ringing side.

 private:
  using Atomics = typename Policy::Atomics;
  using WaitingParker = typename Policy::WaitingParker;
  template <class T>
  using Atomic = typename Atomics::template Atomic<T>;

  [[nodiscard]] const std::byte* blob_of(const OpRecord& record) const noexcept;
  [[nodiscard]] bool reserve_blob(OpRecord& record, std::span<const std::byte> blob);
  /// Frees the bytes of front()'s blob.
  void release_blob(const OpRecord& record) noexcept;

  const LaneId id_;
  std::unique_ptr<std::array<OpRecord, kCapacity>> records_;
  std::unique_ptr<std::array<std::byte, kBlobBytes>> blobs_;

  alignas(64) std::uint64_t tail_local_ = 0;  // producer
  std::uint64_t head_seen_ = 0;               // producer's last load of head_
  std::uint64_t blob_tail_ = 0;               // producer
  std::vector<IntrusivePtr<WaitingParker>>
      parkers_;  // producer: keeps the parkers alive that waited here
  alignas(64) Atomic<std::uint64_t> tail_{0};
  alignas(64) Atomic<std::uint64_t> head_{0};
  Atomic<std::uint64_t> blob_head_{0};
  std::uint64_t tail_seen_ = 0;  // consumer
  bool is_orphaned_ = false;     // consumer
  alignas(64) Atomic<std::uint32_t> rung_{0};
  Atomic<std::uint32_t> producer_waits_{0};
  Atomic<std::uint64_t> awaited_blob_head_{0};  // of the waiting producer
  Atomic<WaitingParker*> waiter_{nullptr};
};

/// The lane of programs.
using Lane = BasicLane<LanePolicy>;
extern template class BasicLane<LanePolicy>;

}  // namespace hearth
