// A lane: the single-producer single-consumer ring of op records between one stream and one device.
// The producer is the thread that uses the stream; the consumer is the holder of the device's
// token. Invariants: (1) records leave in the order they came; (2) a record's sequence is its place
// in the ring's life, from 1, so consumed() ≥ s says that record s is done; (3) blobs lie in a byte
// ring of their own and are freed with their record; (4) `rung` is not 0 while the lane is linked
// in the doorbell or in the consumer's hands; both sides change it by exchange(acq_rel).
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

/// What a lane is made of; the model checker (tests/model) has one of its own, with small rings.
struct LanePolicy {
  using Atomics = detail::StdAtomics;
  using WaitingParker = detail::Parker;
  static constexpr std::uint64_t kCapacity = 256;           ///< records
  static constexpr std::uint64_t kBlobBytes = 64U * 1024U;  ///< bytes of the overflow ring
  /// How often a consumer looks whether the producer waits; divides kCapacity / 2.
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
  /// Copies the record and its blob in and gives it the next sequence; false when there is no room.
  /// A blob above a quarter of the overflow ring goes to the heap. Threads: producer only.
  [[nodiscard]] bool try_push(OpRecord& record, std::span<const std::byte> blob);
  /// True when the lane must be linked into the doorbell after a push. Threads: producer only.
  [[nodiscard]] bool needs_ring() noexcept {
    return rung_.exchange(1, std::memory_order_acq_rel) == 0;  // partner: finish_turn
  }
  /// No more pushes will come: the stream is gone. True when the lane must be rung once more, so
  /// that the actor learns of it. Threads: producer only, as its last use.
  [[nodiscard]] bool orphan() noexcept {
    return rung_.exchange(2, std::memory_order_acq_rel) == 0;  // partner: finish_turn
  }
  /// The sequence of the last record pushed. Threads: producer only.
  [[nodiscard]] std::uint64_t pushed() const noexcept { return tail_local_; }
  /// Whether half of the ring and of the overflow ring is free: then any record fits. Threads:
  /// producer only.
  [[nodiscard]] bool has_room() const noexcept {
    return backlog() <= kCapacity / 2 && blob_tail_ - blob_head_.load(std::memory_order_acquire) <=
                                             kBlobBytes / 2;  // partner: pop
  }
  /// Announces that the producer is about to wait until has_room(); false when it has already.
  /// Threads: producer only.
  [[nodiscard]] bool announce_waiting();
  /// Records pushed and not yet consumed, an upper bound. Threads: producer only.
  [[nodiscard]] std::uint64_t backlog() const noexcept { return tail_local_ - consumed(); }

  // ---- consumer ----
  /// The oldest record, or nullptr. Threads: token holder only.
  [[nodiscard]] const OpRecord* front() noexcept { return peek(0); }
  /// The blob of front(). Threads: token holder only.
  [[nodiscard]] const std::byte* front_blob() const noexcept { return peek_blob(0); }
  /// The record that is `ahead` places behind the oldest, or nullptr. Threads: token holder only.
  [[nodiscard]] const OpRecord* peek(std::uint64_t ahead) noexcept;
  /// The same, where it is known to be there. Threads: token holder only.
  [[nodiscard]] const OpRecord& at(std::uint64_t ahead) const noexcept {
    const OpRecord& record = (*records_)[(consumed() + ahead) % kCapacity];
    Atomics::note_read(&record);
    return record;
  }
  /// The blob of peek(ahead), which is there. Threads: token holder only.
  [[nodiscard]] const std::byte* peek_blob(std::uint64_t ahead) const noexcept {
    const OpRecord& record = (*records_)[(consumed() + ahead) % kCapacity];
    return record.blob_size_bytes == 0 ? nullptr : blob_of(record);
  }
  /// Removes front(), and wakes a producer that waits for room. Threads: token holder only.
  void pop() noexcept;
  /// Wakes a producer that waits although there is room: pop() does not look at each record. Called
  /// where the consumer leaves a lane that is not empty. Threads: token holder only.
  void look_for_producer() noexcept;
  enum class Turn : std::uint8_t {
    empty,       ///< Nothing more came; the lane is out of the consumer's hands until it is rung
                 ///< again, or taken back.
    more,        ///< More came meanwhile; the lane stays with the consumer.
    rung_again,  ///< More came, and its producer has rung or is about to: the doorbell has the
                 ///< lane.
  };
  /// Ends a turn of a lane that has no records but the `looked` oldest, which stay in it. Threads:
  /// token holder only.
  [[nodiscard]] Turn finish_turn(std::uint64_t looked = 0) noexcept;
  /// Takes a lane back that finish_turn() gave out of the consumer's hands. False: it was rung, and
  /// the doorbell has it or is about to. Threads: token holder only.
  [[nodiscard]] bool take_back() noexcept {
    const std::uint32_t old = rung_.exchange(1, std::memory_order_acq_rel);  // partner: needs_ring
    is_orphaned_ = is_orphaned_ || old == 2;
    return old == 0;
  }
  /// The stream is gone; after a finish_turn() that said empty, its thread touches the lane no
  /// more. Threads: token holder only.
  [[nodiscard]] bool is_orphaned() const noexcept { return is_orphaned_; }

  // ---- any thread ----
  /// Records consumed so far.
  [[nodiscard]] std::uint64_t consumed() const noexcept {
    return head_.load(std::memory_order_acquire);  // partner: pop
  }
  /// Records pushed so far, as others see it.
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
  /// Gives the bytes of front()'s blob back.
  void release_blob(const OpRecord& record) noexcept;

  const LaneId id_;
  std::unique_ptr<std::array<OpRecord, kCapacity>> records_;
  std::unique_ptr<std::array<std::byte, kBlobBytes>> blobs_;

  alignas(64) std::uint64_t tail_local_ = 0;  // producer
  std::uint64_t head_seen_ = 0;               // producer's last look at head_
  std::uint64_t blob_tail_ = 0;               // producer
  std::vector<IntrusivePtr<WaitingParker>>
      parkers_;  // producer: keeps those alive that waited here
  alignas(64) Atomic<std::uint64_t> tail_{0};
  alignas(64) Atomic<std::uint64_t> head_{0};
  Atomic<std::uint64_t> blob_head_{0};
  std::uint64_t tail_seen_ = 0;  // consumer
  bool is_orphaned_ = false;     // consumer
  alignas(64) Atomic<std::uint32_t> rung_{0};
  Atomic<std::uint32_t> producer_waits_{0};
  Atomic<std::uint64_t> awaited_blob_head_{0};  // of the producer that waits
  Atomic<WaitingParker*> waiter_{nullptr};
};

/// The lane of programs.
using Lane = BasicLane<LanePolicy>;
extern template class BasicLane<LanePolicy>;

}  // namespace hearth
