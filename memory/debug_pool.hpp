// Memory strategy that finds kernels which read or write out of bounds or after a release.
// Each block has its own page, with guard bytes before and after it. Fresh and freed bytes are NaN
// (all bits set). Freed pages are held for a while, so that late writes are detected and late reads
// see NaN.
// Owned by the device actor, driven by the holder of its token: no locks. Its pages must be host
// memory.
// Invariants: those of PagedStrategy, and (6) every damage is counted; check() reports it once and
// describes the first one.
#pragma once

#include <hearth/memory/page_list.hpp>
#include <hearth/memory/paged_strategy.hpp>

#include <cstdint>
#include <deque>

namespace hearth {

class DebugPool final : public detail::PagedStrategy {
 public:
  /// Limit of the freed pages that are held back; an eighth of the budget if that is less.
  static constexpr std::int64_t kHeldBytes = std::int64_t{64} << 20;
  /// Guard bytes before each block, and the least number after it.
  static constexpr std::int64_t kGuardBytes = 256;

  /// Lifetime: the provider outlives the pool.
  DebugPool(PageProvider& provider, std::int64_t budget_bytes);

  /// Cost: allocates a page and writes size_bytes.
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override;
  /// Cost: writes the block's size.
  void release(const Block& block, const LastUse& last_use) noexcept override;
  void retire(std::size_t stream, std::uint64_t value) noexcept override;
  [[nodiscard]] MemoryReport report() const override;
  /// Checks the held pages, then returns them to the provider.
  std::int64_t trim() noexcept override;
  [[nodiscard]] bool is_checked() const noexcept override { return true; }
  /// Cost: reads up to two pages of the machine.
  [[nodiscard]] Status check(const Block& block) override;

 private:
  using Entry = detail::PageList::Entry;

  /// Checks the guards of a block and repairs them. Returns whether they were intact.
  [[nodiscard]] bool check_guards(const Entry& entry);
  void hold(const detail::ReleaseQueue::Entry& release);
  /// Frees held pages, oldest first, until at most left_bytes are held. Returns the bytes freed.
  std::int64_t release_held(std::int64_t left_bytes);
  void record_damage(const Entry& entry, const char* where, std::int64_t offset_bytes);

  std::int64_t alignment_bytes_;
  std::int64_t most_held_bytes_;
  std::int64_t held_bytes_ = 0;
  detail::PageList entries_;
  std::deque<std::uint32_t> held_;
  Status first_damage_;  // first damage not yet reported
};

}  // namespace hearth
