// Base of the library's memory strategies: pages within a budget, and the exact counts of a report.
// Owned by the device actor, driven by the holder of its token: no locks.
// Invariants: those of MemoryStrategy, and (4) reserved bytes never exceed the budget; (5) in each
// usage, live and waiting bytes are parts of the reserved ones.
#pragma once

#include <hearth/memory/memory_strategy.hpp>
#include <hearth/memory/page_provider.hpp>
#include <hearth/memory/release_queue.hpp>

#include <algorithm>
#include <cstdint>

namespace hearth::detail {

class PagedStrategy : public MemoryStrategy {
 public:
  void count_in_place(std::int64_t size_bytes) noexcept final;
  void reset_peak() noexcept final;

 protected:
  /// Lifetime: the provider outlives the strategy.
  PagedStrategy(PageProvider& provider, std::int64_t budget_bytes);

  [[nodiscard]] std::int64_t room_bytes() const noexcept {
    return counts_.budget_bytes - counts_.total.reserved_bytes;
  }
  /// Allocates a page of at least size_bytes within the budget. The caller counts its bytes.
  [[nodiscard]] Acquire take_page(std::int64_t size_bytes, Page& out);
  /// Like take_page(). Trims and retries once if that fails.
  [[nodiscard]] Acquire take_page_or_trim(std::int64_t size_bytes, Page& out);

  [[nodiscard]] MemoryUsage& usage_of(PoolKind kind) noexcept {
    return kind == PoolKind::exclusive ? counts_.exclusive : counts_.temporary;
  }
  /// Counts bytes that the provider gave; below 0, bytes that went back.
  void count_reserved(PoolKind kind, std::int64_t bytes, std::int64_t pages) noexcept {
    for (MemoryUsage* usage : {&counts_.total, &usage_of(kind)}) {
      usage->reserved_bytes += bytes;
      usage->page_count += pages;
      raise_peaks(*usage);
    }
  }
  void count_acquired(PoolKind kind, std::int64_t bytes) noexcept {
    for (MemoryUsage* usage : {&counts_.total, &usage_of(kind)}) {
      usage->live_bytes += bytes;
      ++usage->live_count;
      ++usage->acquire_count;
      raise_peaks(*usage);
    }
  }
  /// Counts a released block. Its bytes wait until count_free().
  void count_released(PoolKind kind, std::int64_t bytes) noexcept {
    for (MemoryUsage* usage : {&counts_.total, &usage_of(kind)}) {
      usage->live_bytes -= bytes;
      --usage->live_count;
      usage->waiting_bytes += bytes;
    }
  }
  void count_free(PoolKind kind, std::int64_t bytes) noexcept {
    counts_.total.waiting_bytes -= bytes;
    usage_of(kind).waiting_bytes -= bytes;
  }
  /// The counts, with the free bytes. The strategy adds its largest pieces and its pools.
  [[nodiscard]] MemoryReport counted_report() const;

  PageProvider& provider_;
  ReleaseQueue waiting_;
  MemoryReport counts_;

 private:
  static void raise_peaks(MemoryUsage& usage) noexcept {
    usage.peak_live_bytes = std::max(usage.peak_live_bytes, usage.live_bytes);
    usage.peak_reserved_bytes = std::max(usage.peak_reserved_bytes, usage.reserved_bytes);
  }
};

}  // namespace hearth::detail
