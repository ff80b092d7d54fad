// The functions of BasicLane, for the programs that instantiate it: lane.cpp and the model checker.
// Threads: as in lane.hpp.
#pragma once

#include <hearth/streams/lane.hpp>

#include <algorithm>
#include <cstring>

namespace hearth {
namespace detail {
constexpr std::uint64_t round_up_blob(std::uint64_t size) {
  return (size + 15U) & ~std::uint64_t{15};
}
}  // namespace detail

template <class Policy>
BasicLane<Policy>::BasicLane(LaneId id)
    : id_(id),
      records_(std::make_unique<std::array<OpRecord, kCapacity>>()),
      blobs_(std::make_unique<std::array<std::byte, kBlobBytes>>()) {}

template <class Policy>
BasicLane<Policy>::~BasicLane() {
  while (front() != nullptr) {
    pop();
  }
}

template <class Policy>
bool BasicLane<Policy>::reserve_blob(OpRecord& record, std::span<const std::byte> blob) {
  record.blob_size_bytes = static_cast<std::uint32_t>(blob.size());
  if (blob.size() > kBlobBytes / 4) {
    // The pointer to a heap copy replaces the bytes in the ring.
    auto bytes = std::make_unique<std::byte[]>(blob.size());  // NOLINT(modernize-avoid-c-arrays)
    std::memcpy(bytes.get(), blob.data(), blob.size());
    std::byte* raw = bytes.get();
    OpRecord pointer_record = record;
    if (!reserve_blob(pointer_record, std::as_bytes(std::span(&raw, 1)))) {
      return false;
    }
    static_cast<void>(bytes.release());
    record.blob_offset = pointer_record.blob_offset;
    return true;
  }
  const std::uint64_t need = detail::round_up_blob(blob.size());
  std::uint64_t start = blob_tail_;
  const std::uint64_t room_to_end = kBlobBytes - start % kBlobBytes;
  if (need > room_to_end) {
    start += room_to_end;  // a blob never wraps
  }
  if (start + need - blob_head_.load(std::memory_order_acquire) > kBlobBytes) {  // partner: pop
    return false;
  }
  Atomics::record_write(blobs_->data() + start % kBlobBytes);
  std::memcpy(blobs_->data() + start % kBlobBytes, blob.data(), blob.size());
  record.blob_offset = static_cast<std::uint32_t>(start % kBlobBytes);
  blob_tail_ = start + need;
  return true;
}

template <class Policy>
bool BasicLane<Policy>::try_push(OpRecord& record, std::span<const std::byte> blob) {
  if (tail_local_ - head_seen_ == kCapacity) {
    head_seen_ = consumed();
    if (tail_local_ - head_seen_ == kCapacity) {
      return false;
    }
  }
  record.blob_size_bytes = 0;
  if (!blob.empty() && !reserve_blob(record, blob)) {
    return false;
  }
  record.sequence = tail_local_ + 1;
  OpRecord& place = (*records_)[tail_local_ % kCapacity];
  Atomics::record_write(&place);
  place = record;
  ++tail_local_;
  tail_.store(tail_local_, std::memory_order_release);  // partner: front
  return true;
}

template <class Policy>
bool BasicLane<Policy>::announce_waiting() {
  WaitingParker& parker = Policy::current_parker();
  if (waiter_.load(std::memory_order_acquire) != &parker) {
    const auto is_this = [&](const auto& known) { return known.get() == &parker; };
    if (std::ranges::none_of(parkers_, is_this)) {
      parkers_.emplace_back(&parker);
    }
    waiter_.store(&parker, std::memory_order_release);  // partner: look_for_producer
  }
  awaited_blob_head_.store(blob_tail_ - std::min(blob_tail_, kBlobBytes / 2),
                           std::memory_order_release);     // partner: look_for_producer
  producer_waits_.exchange(1, std::memory_order_acq_rel);  // partner: look_for_producer
  head_seen_ = consumed();
  if (has_room()) {
    producer_waits_.exchange(0, std::memory_order_acq_rel);
    return false;
  }
  return true;
}

template <class Policy>
const OpRecord* BasicLane<Policy>::peek(std::uint64_t ahead) noexcept {
  const std::uint64_t place = consumed() + ahead;
  if (place >= tail_seen_) {
    tail_seen_ = pushed_seen();
    if (place >= tail_seen_) {
      return nullptr;
    }
  }
  return &at(ahead);
}

template <class Policy>
const std::byte* BasicLane<Policy>::blob_of(const OpRecord& record) const noexcept {
  const std::byte* place = blobs_->data() + record.blob_offset;
  Atomics::record_read(place);
  if (record.blob_size_bytes > kBlobBytes / 4) {
    const std::byte* heap = nullptr;
    std::memcpy(&heap, place, sizeof heap);
    return heap;
  }
  return place;
}

template <class Policy>
void BasicLane<Policy>::release_blob(const OpRecord& record) noexcept {
  std::uint64_t size = record.blob_size_bytes;
  if (size > kBlobBytes / 4) {
    std::byte* heap = nullptr;
    std::memcpy(&heap, blobs_->data() + record.blob_offset, sizeof heap);
    const std::unique_ptr<std::byte[]> owner(heap);  // NOLINT(modernize-avoid-c-arrays)
    size = sizeof heap;
  }
  // Position in the ring's running count: the first such offset at or after the old head.
  const std::uint64_t old_head = blob_head_.load(std::memory_order_acquire);
  const std::uint64_t start =
      old_head + (record.blob_offset + kBlobBytes - old_head % kBlobBytes) % kBlobBytes;
  blob_head_.store(start + detail::round_up_blob(size),
                   std::memory_order_release);  // partner: reserve_blob
}

template <class Policy>
void BasicLane<Policy>::pop() noexcept {
  const std::uint64_t head = consumed();
  const OpRecord& record = (*records_)[head % kCapacity];
  Atomics::record_read(&record);
  const bool has_blob = record.blob_size_bytes != 0;
  if (has_blob) {
    release_blob(record);
  }
  head_.store(head + 1, std::memory_order_release);  // partner: consumed
  // A waiting producer pushes nothing, so has_room() becomes true when half of the ring is left, or
  // when a blob is freed. The consumer may miss that record if the last pushes are not visible yet.
  // Then a check every kLookEvery records, the last record, or look_for_producer() wakes the
  // producer.
  const std::uint64_t left = pushed_seen() - (head + 1);
  if (left <= kCapacity / 2 &&
      (left == kCapacity / 2 || left == 0 || has_blob || (head + 1) % Policy::kLookEvery == 0)) {
    look_for_producer();
  }
}

template <class Policy>
void BasicLane<Policy>::look_for_producer() noexcept {
  // Partner: announce_waiting, which sets the flag by exchange and then loads the heads.
  if (producer_waits_.exchange(0, std::memory_order_acq_rel) == 0) {
    return;
  }
  const bool has_room =
      pushed_seen() - consumed() <= kCapacity / 2 &&
      blob_head_.load(std::memory_order_acquire) >=
          awaited_blob_head_.load(std::memory_order_acquire);  // partner: announce_waiting
  if (has_room) {
    waiter_.load(std::memory_order_acquire)->unpark();
  } else {
    producer_waits_.exchange(1, std::memory_order_acq_rel);  // it sleeps on: a later check finds it
  }
}

template <class Policy>
typename BasicLane<Policy>::Turn BasicLane<Policy>::finish_turn(std::uint64_t looked) noexcept {
  if (rung_.exchange(0, std::memory_order_acq_rel) == 2) {  // partners: needs_ring, orphan
    is_orphaned_ = true;
  }
  // The consumer has released the lane. Once the doorbell has stopped, the producer may be the
  // consumer, so only atomics are read here.
  if (consumed() + looked == pushed_seen()) {
    return Turn::empty;
  }
  // Records arrived between the last check and the release. The side that sets the flag first owns
  // the lane.
  const std::uint32_t old = rung_.exchange(1, std::memory_order_acq_rel);
  if (old == 2) {
    is_orphaned_ = true;
  }
  return old == 0 ? Turn::more : Turn::rung_again;
}

}  // namespace hearth
