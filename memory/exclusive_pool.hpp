// Memory strategy with one page for each block. A freed page is kept for the next request of nearly
// its size; no block is split or joined.
// Owned by the device actor, driven by the holder of its token: no locks.
// Invariants: those of MemoryStrategy, and (4) reserved bytes never exceed the budget; (5) a page
// belongs to a block, waits for a stream, or is free; (6) no block wastes more than a quarter of
// its page beyond the provider's own rounding.
#pragma once

#include <hearth/memory/memory_strategy.hpp>
#include <hearth/memory/page_provider.hpp>
#include <hearth/memory/release_queue.hpp>

#include <cstdint>
#include <map>
#include <vector>

namespace hearth {

class ExclusivePool final : public MemoryStrategy {
 public:
  /// Lifetime: the provider outlives the pool.
  ExclusivePool(PageProvider& provider, std::int64_t budget_bytes);
  ExclusivePool(const ExclusivePool&) = delete;
  ExclusivePool& operator=(const ExclusivePool&) = delete;
  /// Returns all pages, including those with blocks that were not released.
  ~ExclusivePool() override;

  /// Cost: O(log free); a new page costs what the provider costs.
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override;
  void release(const Block& block, const LastUse& last_use) noexcept override;
  void retire(std::size_t stream, std::uint64_t value) noexcept override;
  void count_in_place(std::int64_t size_bytes) noexcept override;
  [[nodiscard]] MemoryReport report() const override;
  void reset_peak() noexcept override;
  std::int64_t trim() noexcept override;

 private:
  struct Entry {
    Page page;
    PoolKind kind = PoolKind::temporary;
    std::uint64_t ready_after = 0;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  [[nodiscard]] std::uint32_t take_free(std::int64_t size_bytes);
  [[nodiscard]] Acquire add_page(std::int64_t size_bytes, std::uint32_t& index);
  [[nodiscard]] bool can_wait() const noexcept;
  [[nodiscard]] MemoryUsage& usage_of(PoolKind kind) noexcept;
  void count_reserved(PoolKind kind, std::int64_t bytes, std::int64_t pages) noexcept;
  void make_free(const detail::ReleaseQueue::Entry& release);

  PageProvider& provider_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> unused_;                // entries without a page
  std::multimap<std::int64_t, std::uint32_t> free_;  // by size
  detail::ReleaseQueue waiting_;
  MemoryReport counts_;
};

}  // namespace hearth
