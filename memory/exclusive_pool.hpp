// Memory strategy with one page for each block. A freed page is kept for the next request of nearly
// its size; no block is split or joined.
// Owned by the device actor, driven by the holder of its token: no locks.
// Invariants: those of PagedStrategy, and (6) a page belongs to a block, waits for a stream, or is
// free; (7) no block wastes more than a quarter of its page beyond the provider's own rounding.
#pragma once

#include <hearth/memory/page_list.hpp>
#include <hearth/memory/paged_strategy.hpp>

#include <cstdint>
#include <map>

namespace hearth {

class ExclusivePool final : public detail::PagedStrategy {
 public:
  /// Lifetime: the provider outlives the pool.
  ExclusivePool(PageProvider& provider, std::int64_t budget_bytes);

  /// Cost: O(log free); a new page costs what the provider costs.
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override;
  void release(const Block& block, const LastUse& last_use) noexcept override;
  void retire(std::size_t stream, std::uint64_t value) noexcept override;
  [[nodiscard]] MemoryReport report() const override;
  std::int64_t trim() noexcept override;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  [[nodiscard]] std::uint32_t take_free(std::int64_t size_bytes);
  [[nodiscard]] bool can_wait() const noexcept;
  void make_free(const detail::ReleaseQueue::Entry& release);

  detail::PageList entries_;
  std::multimap<std::int64_t, std::uint32_t> free_;  // by size
};

}  // namespace hearth
