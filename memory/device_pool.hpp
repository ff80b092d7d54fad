// The memory of one device: blocks for all its lanes, cut from pages that stay mapped until trim().
// Owned by the device actor, driven by the holder of its token: no locks.
// Invariants: those of MemoryStrategy, and (4) reserved bytes never exceed the budget; (5)
// exclusive blocks and temporaries never share a page; (6) no page is asked for while a free piece
// fits; (7) acquire and release call neither malloc nor the provider once the program's peak has
// been reached.
#pragma once

#include <hearth/memory/block_heap.hpp>
#include <hearth/memory/memory_strategy.hpp>
#include <hearth/memory/page_provider.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace hearth {

struct PoolOptions {
  /// Pages together stay at or under this. Host devices take 60 % of available_host_bytes().
  std::int64_t budget_bytes = std::numeric_limits<std::int64_t>::max();
  /// A heap's first page; each next one doubles what the heap holds, up to page_bytes.
  std::int64_t first_page_bytes = std::int64_t{2} << 20;
  /// The usual page. A request over half of it gets a page of its own size.
  std::int64_t page_bytes = std::int64_t{64} << 20;
  /// Temporaries below this live in pages apart from larger ones, so that a small block never
  /// splits a large hole.
  std::int64_t small_bytes = std::int64_t{1} << 20;
};

class DevicePool final : public MemoryStrategy {
 public:
  /// Lifetime: the provider outlives the pool.
  explicit DevicePool(PageProvider& provider, PoolOptions options = {});
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;
  /// Returns all pages, those with blocks that are still out too.
  ~DevicePool() override;

  /// Over the budget, pages without a block are trimmed before the answer is anything but ok.
  ///
  /// Cost: O(1); a new page costs what the provider costs.
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override;
  /// Cost: O(1), plus O(log waiting) when another stream than the home stream is named and not
  /// done.
  void release(const Block& block, const LastUse& last_use) noexcept override;
  /// Cost: O(log waiting) for each release that became ready.
  void retire(std::size_t stream, std::uint64_t value) noexcept override;
  void count_in_place(std::int64_t size_bytes) noexcept override;
  /// Cost: O(1), but for the largest free piece, which looks through one size class of each heap.
  [[nodiscard]] MemoryReport report() const override;
  void reset_peak() noexcept override;
  std::int64_t trim() noexcept override;

 private:
  static constexpr std::uint32_t kSmallHeap = 0;
  static constexpr std::uint32_t kLargeHeap = 1;
  static constexpr std::uint32_t kExclusiveHeap = 2;
  static constexpr std::uint32_t kHeapCount = 3;
  struct WaitingRelease {
    std::uint64_t value = 0;  ///< On the stream in whose queue it stands.
    LastUse last_use;
    std::uint32_t heap = 0;
    std::uint32_t index = 0;
  };

  [[nodiscard]] std::uint32_t heap_for(std::int64_t size_bytes, PoolKind kind) const noexcept;
  [[nodiscard]] MemoryUsage& usage_of(std::uint32_t heap) noexcept;
  [[nodiscard]] Acquire grow(std::uint32_t heap, std::int64_t size_bytes);
  [[nodiscard]] Acquire add_page(std::uint32_t heap, std::int64_t page_bytes);
  [[nodiscard]] bool can_wait() const noexcept;
  void settle(WaitingRelease release) noexcept;
  void count_reserved(std::uint32_t heap, std::int64_t bytes, std::int64_t pages) noexcept;

  PageProvider& provider_;
  PoolOptions options_;
  std::int64_t granule_bytes_;
  std::array<detail::BlockHeap, kHeapCount> heaps_;
  std::array<std::uint64_t, kMaxPhysicalStreams> completed_{};
  std::array<std::vector<WaitingRelease>, kMaxPhysicalStreams>
      waiting_;  // a min-heap by value each
  MemoryReport counts_;
};

}  // namespace hearth
