// An intern table maps equal keys to one small number, and the number back to its entry.
// Owned by a Runtime; several may exist side by side.
// Threads: any. Finding a known key and reading by id take no lock; only a new key does.
// Invariants: (1) ids are dense, 0, 1, 2, ...; (2) entries are never changed, moved or removed
// before the table dies; (3) at most `cap` entries.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <hearth/runtime/base/assert.hpp>
#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/sync.hpp>

namespace hearth::detail {

/// Policy: types Id, Key (cheap to pass), Entry (default constructible) and static functions
/// hash(Key) -> uint64_t, equal(const Entry&, Key) -> bool, make(Key) -> Entry, full(cap) -> Error.
template <class Policy>
class Interner final {
 public:
  using Id = typename Policy::Id;
  using Key = typename Policy::Key;
  using Entry = typename Policy::Entry;

  explicit Interner(std::uint32_t cap) : cap_(cap) { add_index(kFirstSlots); }
  Interner(const Interner&) = delete;
  Interner& operator=(const Interner&) = delete;
  ~Interner() = default;

  /// Returns the id of a key, new or known.
  ///
  /// Errors: Policy::full for a new key if the table is full.
  [[nodiscard]] Result<Id> intern(const Key& key) {
    const auto tag = static_cast<std::uint32_t>(Policy::hash(key) >> 32U);
    // acquire: pairs with the release in add_index.
    const std::uint32_t found = find(*index_.load(std::memory_order_acquire), key, tag);
    return found != kNone ? Result<Id>(Id{found}) : insert(key, tag);
  }

  /// Returns the id of a key if it is known.
  [[nodiscard]] std::optional<Id> find(const Key& key) const {
    const auto tag = static_cast<std::uint32_t>(Policy::hash(key) >> 32U);
    // acquire: pairs with the release in add_index.
    const std::uint32_t found = find(*index_.load(std::memory_order_acquire), key, tag);
    return found != kNone ? std::optional<Id>(Id{found}) : std::nullopt;
  }

  /// Returns the entry of an id from intern(); valid as long as the table.
  [[nodiscard]] const Entry& operator[](Id id) const noexcept {
    HEARTH_ASSERT(id.value < size(), "an id of another intern table");
    const Place place = place_of(id.value);
    // acquire: pairs with the release in new_entry.
    return chunks_[place.chunk].load(std::memory_order_acquire)[place.offset];
  }

  [[nodiscard]] std::uint32_t size() const noexcept {
    return size_.load(std::memory_order_acquire);  // pairs with the release in insert
  }
  [[nodiscard]] std::uint32_t cap() const noexcept { return cap_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffffU;
  static constexpr std::uint32_t kFirstSlots = 128;
  // Chunk c holds 64 * 2^c entries, so 27 of them hold every 32-bit id.
  static constexpr unsigned kFirstChunkBits = 6;
  static constexpr std::size_t kChunkCount = 27;

  struct Place {
    std::size_t chunk;
    std::size_t offset;
  };
  // Open addressing. A slot is 0, or 32 bits of hash above id + 1. Never more than half full.
  struct Index {
    explicit Index(std::uint32_t slot_count) : mask(slot_count - 1), slots(slot_count) {}
    std::uint32_t mask;
    std::vector<std::atomic<std::uint64_t>> slots;
  };

  static Place place_of(std::uint32_t id) noexcept {
    const std::uint64_t shifted = std::uint64_t{id} + (std::uint64_t{1} << kFirstChunkBits);
    const auto top = static_cast<unsigned>(std::bit_width(shifted)) - 1U;
    return {.chunk = top - kFirstChunkBits, .offset = shifted - (std::uint64_t{1} << top)};
  }

  std::uint32_t find(const Index& index, const Key& key, std::uint32_t tag) const {
    for (std::uint32_t i = tag & index.mask;; i = (i + 1) & index.mask) {
      // acquire: pairs with the release in place_id; the entry is complete.
      const std::uint64_t slot = index.slots[i].load(std::memory_order_acquire);
      if (slot == 0) {
        return kNone;
      }
      const auto id = static_cast<std::uint32_t>(slot) - 1U;
      if (static_cast<std::uint32_t>(slot >> 32U) == tag && Policy::equal(entry(id), key)) {
        return id;
      }
    }
  }

  const Entry& entry(std::uint32_t id) const noexcept {
    const Place place = place_of(id);
    return chunks_[place.chunk].load(std::memory_order_acquire)[place.offset];
  }

  Result<Id> insert(const Key& key, std::uint32_t tag) HEARTH_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const std::uint32_t found = find(*index_.load(std::memory_order_acquire), key, tag);
    if (found != kNone) {
      return Id{found};
    }
    const std::uint32_t id = size_.load(std::memory_order_acquire);
    if (id == cap_) {
      return Policy::full(cap_);
    }
    new_entry(id) = Policy::make(key);
    Index* index = indexes_.back().get();
    if ((id + 1) * std::uint64_t{2} > index->slots.size()) {
      index = grow_index();
    }
    size_.store(id + 1, std::memory_order_release);  // pairs with the acquire in size
    place_id(*index, tag, id);
    return Id{id};
  }

  Entry& new_entry(std::uint32_t id) HEARTH_REQUIRES(mutex_) {
    const Place place = place_of(id);
    if (storage_[place.chunk] == nullptr) {
      storage_[place.chunk] =
          std::make_unique<Entry[]>(std::size_t{1} << (place.chunk + kFirstChunkBits));
      // release: pairs with the acquire of readers.
      chunks_[place.chunk].store(storage_[place.chunk].get(), std::memory_order_release);
    }
    return storage_[place.chunk][place.offset];
  }

  static void place_id(Index& index, std::uint32_t tag, std::uint32_t id) noexcept {
    std::uint32_t i = tag & index.mask;
    while (index.slots[i].load(std::memory_order_acquire) != 0) {
      i = (i + 1) & index.mask;
    }
    // release: pairs with the acquire in find.
    index.slots[i].store(std::uint64_t{tag} << 32U | (id + 1U), std::memory_order_release);
  }

  // Old indexes are kept for concurrent readers; together they are smaller than the newest.
  Index* grow_index() HEARTH_REQUIRES(mutex_) {
    const Index& old = *indexes_.back();
    auto grown = std::make_unique<Index>(static_cast<std::uint32_t>(old.slots.size()) * 2);
    for (const std::atomic<std::uint64_t>& slot : old.slots) {
      const std::uint64_t value = slot.load(std::memory_order_acquire);
      if (value != 0) {
        place_id(*grown,
                 static_cast<std::uint32_t>(value >> 32U),
                 static_cast<std::uint32_t>(value) - 1U);
      }
    }
    return publish_index(std::move(grown));
  }

  void add_index(std::uint32_t slot_count) {
    const MutexLock lock(mutex_);
    publish_index(std::make_unique<Index>(slot_count));
  }

  Index* publish_index(std::unique_ptr<Index> index) HEARTH_REQUIRES(mutex_) {
    indexes_.push_back(std::move(index));
    // release: pairs with the acquire in intern.
    index_.store(indexes_.back().get(), std::memory_order_release);
    return indexes_.back().get();
  }

  const std::uint32_t cap_;
  std::atomic<std::uint32_t> size_{0};
  std::atomic<const Index*> index_{nullptr};
  std::array<std::atomic<Entry*>, kChunkCount> chunks_{};

  Mutex mutex_;
  std::vector<std::unique_ptr<Index>> indexes_ HEARTH_GUARDED_BY(mutex_);
  std::array<std::unique_ptr<Entry[]>, kChunkCount> storage_ HEARTH_GUARDED_BY(mutex_);
};

}  // namespace hearth::detail
