// A strategy that finds kernels which write or read where they should not: a page for each block,
// guard bytes before and after it, NaN (all bits set) in all bytes that are fresh or freed. Freed
// pages are held for a while, so that late writes are found and late reads see NaN.
// Owned by the device actor, driven by the holder of its token: no locks. Its pages must be host
// memory.
// Invariants: those of MemoryStrategy, and (4) reserved bytes never exceed the budget; (5) every
// damage is counted, and told once by check(), the first one in words.
#pragma once

#include <hearth/memory/memory_strategy.hpp>
#include <hearth/memory/page_provider.hpp>
#include <hearth/memory/release_queue.hpp>

#include <cstdint>
#include <deque>
#include <vector>

namespace hearth {

class DebugPool final : public MemoryStrategy {
 public:
  /// Freed pages held back; less where that is over an eighth of the budget.
  static constexpr std::int64_t kHeldBytes = std::int64_t{64} << 20;
  /// Before each block; behind it at least as many.
  static constexpr std::int64_t kGuardBytes = 256;

  /// Lifetime: the provider outlives the pool.
  DebugPool(PageProvider& provider, std::int64_t budget_bytes);
  DebugPool(const DebugPool&) = delete;
  DebugPool& operator=(const DebugPool&) = delete;
  ~DebugPool() override;

  /// Cost: a page, and its size in written bytes.
  [[nodiscard]] Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) override;
  /// Cost: its size in written bytes.
  void release(const Block& block, const LastUse& last_use) noexcept override;
  void retire(std::size_t stream, std::uint64_t value) noexcept override;
  void count_in_place(std::int64_t size_bytes) noexcept override;
  [[nodiscard]] MemoryReport report() const override;
  void reset_peak() noexcept override;
  /// Looks at the pages that are held, then returns them.
  std::int64_t trim() noexcept override;
  [[nodiscard]] bool is_checked() const noexcept override { return true; }
  /// Cost: up to two pages of the machine in read bytes.
  [[nodiscard]] Status check(const Block& block) override;

 private:
  struct Entry {
    Page page;
    std::int64_t size_bytes = 0;  // of the block
    PoolKind kind = PoolKind::temporary;
  };

  [[nodiscard]] Acquire add_page(std::int64_t size_bytes, Page& out);
  /// Looks at the guards of a block and mends them; whether they were whole.
  [[nodiscard]] bool note_guards(const Entry& entry);
  void hold(const detail::ReleaseQueue::Entry& release);
  /// Gives held pages back, oldest first, until they are at most that many bytes.
  std::int64_t let_go(std::int64_t left_bytes);
  void note_damage(const Entry& entry, const char* where, std::int64_t offset_bytes);
  [[nodiscard]] MemoryUsage& usage_of(PoolKind kind) noexcept;

  PageProvider& provider_;
  std::int64_t alignment_bytes_;
  std::int64_t most_held_bytes_;
  std::int64_t held_bytes_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> unused_;
  std::deque<std::uint32_t> held_;
  detail::ReleaseQueue waiting_;
  Status complaint_;  // the first damage that nobody has been told of
  MemoryReport counts_;
};

}  // namespace hearth
