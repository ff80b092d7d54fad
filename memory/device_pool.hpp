// The memory of one device: blocks for all its lanes, cut from pages that stay mapped until trim().
// Each heap has a first page from the beginning where the provider says that this pays
// (early_page_bytes) and the budget is 256 times as large.
// Owned by the device actor, driven by the holder of its token: no locks.
// Invariants: those of MemoryStrategy, and (4) reserved bytes never exceed the budget; (5)
// exclusive blocks and temporaries share a page only when the budget leaves no other place; (6) no
// page is asked for while a free piece fits; (7) where pages grow and have gaps, free pieces of
// 128 KiB and more never make the bytes reserved for all but scratch exceed the most that was live
// of it by over a tenth; (8) acquire and release call neither malloc nor the provider while a free
// piece fits.
#pragma once

#include <hearth/memory/block_heap.hpp>
#include <hearth/memory/memory_strategy.hpp>
#include <hearth/memory/page_provider.hpp>
#include <hearth/memory/release_queue.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace hearth {

struct PoolOptions {
  /// Pages together stay at or under this. A runtime's host devices share 60 % of
  /// available_host_bytes().
  std::int64_t budget_bytes = std::numeric_limits<std::int64_t>::max();
  // Where the provider's pages grow, each heap has one that is lengthened as need be; where they
  // keep their size, or a page has come to its end, the next three hold.
  /// A heap's first page; each next one doubles what the heap holds, up to page_bytes.
  std::int64_t first_page_bytes = std::int64_t{2} << 20;
  /// The usual page. A request over half of it gets a page of its own size.
  std::int64_t page_bytes = std::int64_t{64} << 20;
  /// Temporaries below this, or below 1/64 of the most that was live, live in pages apart from
  /// larger ones, so that a small block never splits a large hole.
  std::int64_t small_bytes = std::int64_t{64} << 10;
};

class DevicePool final : public MemoryStrategy {
 public:
  /// Lifetime: the provider outlives the pool.
  explicit DevicePool(PageProvider& provider, PoolOptions options = {});
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;
  /// Returns all pages, those with blocks that are still out too.
  ~DevicePool() override;

  /// Over the budget, pages without a block are trimmed, and pieces of the other heaps taken,
  /// before the answer is anything but ok.
  ///
  /// Cost: O(1); a new page costs what the provider costs.
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override;
  /// Cost: O(1), plus O(log waiting) when another stream than the home stream is named and not
  /// done.
  void release(const Block& block, const LastUse& last_use) noexcept override;
  /// Cost: O(log waiting) for each release that became ready.
  void retire(std::size_t stream, std::uint64_t value) noexcept override;
  void count_in_place(std::int64_t size_bytes) noexcept override;
  /// Cost: O(small pieces that were freed), which are joined, and a size class of each heap.
  [[nodiscard]] MemoryReport report() const override;
  void reset_peak() noexcept override;
  std::int64_t trim() noexcept override;

 private:
  static constexpr std::uint32_t kSmallHeap = 0;
  static constexpr std::uint32_t kLargeHeap = 1;
  static constexpr std::uint32_t kExclusiveHeap = 2;
  static constexpr std::uint32_t kScratchHeap = 3;
  static constexpr std::uint32_t kHeapCount = 4;
  [[nodiscard]] std::uint32_t heap_for(std::int64_t size_bytes, PoolKind kind) const noexcept;
  [[nodiscard]] MemoryUsage& usage_of(std::uint32_t heap) noexcept;
  [[nodiscard]] Acquire grow(std::uint32_t heap, std::int64_t size_bytes);
  /// A piece from a heap that was made for others.
  [[nodiscard]] std::uint32_t borrow(std::uint32_t& heap, std::int64_t size_bytes);
  [[nodiscard]] Acquire lengthen(std::uint32_t heap, std::int64_t size_bytes);
  [[nodiscard]] Acquire stretch(std::uint32_t heap, std::int64_t more_bytes);
  [[nodiscard]] Acquire fill_gap(std::uint32_t heap, const detail::BlockHeap::Room& room);
  /// Gives free bytes of the first `heap_count` heaps back to the provider until that many are
  /// gone, without the free end of `heap`; how many went.
  std::int64_t give_back(std::uint32_t heap, std::int64_t size_bytes, std::uint32_t heap_count);
  /// Above this, once a block of that size is live, free bytes go back before the pool grows.
  [[nodiscard]] std::int64_t most_reserved_bytes(std::int64_t size_bytes) const noexcept;
  [[nodiscard]] Acquire add_room(std::uint32_t heap, std::int64_t size_bytes);
  [[nodiscard]] Acquire add_page(std::uint32_t heap, std::int64_t page_bytes);
  [[nodiscard]] bool can_wait() const;
  void free_piece(const detail::ReleaseQueue::Entry& release) noexcept;
  void count_reserved(std::uint32_t heap, std::int64_t bytes, std::int64_t pages) noexcept;

  PageProvider& provider_;
  PoolOptions options_;
  std::int64_t granule_bytes_;
  mutable std::array<detail::BlockHeap, kHeapCount> heaps_;  // who asks may join what rests
  bool pages_grow_ = true;                                   // until the provider says no
  std::int64_t most_live_bytes_ = 0;  // since the start, as far as the pool had to grow for it
  detail::ReleaseQueue waiting_;
  MemoryReport counts_;
};

}  // namespace hearth
