// The memory of one device: blocks for all its lanes, cut from pages that stay mapped until trim().
// Each heap starts with a page if the provider recommends it (early_page_bytes) and the budget is
// at least 256 times as large.
// Owned by the device actor, driven by the holder of its token: no locks.
// Invariants: those of PagedStrategy, and (6) exclusive blocks and temporaries share a page only if
// the budget leaves no other place; (7) no page is requested while a free piece fits; (8) where
// pages grow and have gaps, large free pieces never make the reserved bytes exceed the peak of live
// bytes by over a tenth. Large pieces have 128 KiB or more, and scratch is not counted. (9) Acquire
// and release call neither malloc nor the provider while a free piece fits.
#pragma once

#include <hearth/memory/block_heap.hpp>
#include <hearth/memory/paged_strategy.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace hearth {

struct PoolOptions {
  /// Limit of all pages together. By default the host devices of a runtime share 60 % of
  /// available_host_bytes().
  std::int64_t budget_bytes = std::numeric_limits<std::int64_t>::max();
  // Each heap has one page that grows as needed, if the provider's pages can grow. The next three
  // fields apply to pages of fixed size, and once the growing page has reached its end.
  /// First page of a heap. Each further page doubles the bytes of the heap, up to page_bytes.
  std::int64_t first_page_bytes = std::int64_t{2} << 20;
  /// Usual page. A request over half of it gets a page of its own size.
  std::int64_t page_bytes = std::int64_t{64} << 20;
  /// Temporaries below this size have pages apart from larger ones, so that a small block never
  /// splits a large hole. The limit is 1/64 of the peak of live bytes if that is more.
  std::int64_t small_bytes = std::int64_t{64} << 10;
};

class DevicePool final : public detail::PagedStrategy {
 public:
  /// Lifetime: the provider outlives the pool.
  explicit DevicePool(PageProvider& provider, PoolOptions options = {});
  /// Returns all pages, including those with blocks that were not released.
  ~DevicePool() override;

  /// Acquires a block. Before it returns anything but ok, it trims pages without a block and takes
  /// pieces from the other heaps.
  ///
  /// Cost: O(1); a new page costs what the provider costs.
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override;
  /// Cost: O(1), plus O(log waiting) if the release names a pending use on a stream other than
  /// home.
  void release(const Block& block, const LastUse& last_use) noexcept override;
  /// Cost: O(log waiting) for each release that becomes ready.
  void retire(std::size_t stream, std::uint64_t value) noexcept override;
  /// Cost: O(resting pieces), which are joined, and one size class of each heap.
  [[nodiscard]] MemoryReport report() const override;
  std::int64_t trim() noexcept override;

 private:
  static constexpr std::uint32_t kSmallHeap = 0;
  static constexpr std::uint32_t kLargeHeap = 1;
  static constexpr std::uint32_t kExclusiveHeap = 2;
  static constexpr std::uint32_t kScratchHeap = 3;
  static constexpr std::uint32_t kHeapCount = 4;
  [[nodiscard]] std::uint32_t heap_for(std::int64_t size_bytes, PoolKind kind) const noexcept;
  [[nodiscard]] static PoolKind kind_of(std::uint32_t heap) noexcept {
    return heap == kExclusiveHeap ? PoolKind::exclusive : PoolKind::temporary;
  }
  [[nodiscard]] Acquire grow(std::uint32_t heap, std::int64_t size_bytes);
  /// Takes a piece from a heap of another class.
  [[nodiscard]] std::uint32_t borrow(std::uint32_t& heap, std::int64_t size_bytes);
  [[nodiscard]] Acquire lengthen(std::uint32_t heap, std::int64_t size_bytes);
  [[nodiscard]] Acquire stretch(std::uint32_t heap, std::int64_t more_bytes);
  [[nodiscard]] Acquire fill_gap(std::uint32_t heap, const detail::BlockHeap::Room& room);
  /// Returns size_bytes of the first heap_count heaps' free memory to the provider, but not the
  /// free end of `heap`. Returns the number of bytes.
  std::int64_t release_pages(std::uint32_t heap, std::int64_t size_bytes, std::uint32_t heap_count);
  /// Limit of the reserved bytes with a further block of size_bytes. Above it, free bytes are
  /// returned before the pool grows.
  [[nodiscard]] std::int64_t most_reserved_bytes(std::int64_t size_bytes) const noexcept;
  [[nodiscard]] Acquire add_room(std::uint32_t heap, std::int64_t size_bytes);
  [[nodiscard]] Acquire add_page(std::uint32_t heap, std::int64_t page_bytes);
  [[nodiscard]] bool can_wait() const;
  void free_piece(const detail::ReleaseQueue::Entry& release) noexcept;

  PoolOptions options_;
  std::int64_t granule_bytes_;
  mutable std::array<detail::BlockHeap, kHeapCount> heaps_;  // report() joins resting pieces
  bool pages_grow_ = true;                                   // false once the provider refuses
  std::int64_t most_live_bytes_ = 0;  // since the start, updated when the pool grows
};

}  // namespace hearth
