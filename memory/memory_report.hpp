// Exact numbers of a device's memory: what is in use, what is held from the machine, and how well
// it fits. Plain values, a snapshot. Threads: any. Invariant: reserved_bytes = live_bytes +
// waiting_bytes + free_bytes, in each usage.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Bytes are counted in whole granules of the device (64 on a host), so that every sum is exact.
struct MemoryUsage {
  std::int64_t live_bytes = 0;           ///< In blocks that are out.
  std::int64_t live_count = 0;           ///< How many those are.
  std::int64_t waiting_bytes = 0;        ///< Released, but another stream may still use them.
  std::int64_t free_bytes = 0;           ///< Ready for the next acquire.
  std::int64_t largest_free_bytes = 0;   ///< The largest of the free pieces.
  std::int64_t reserved_bytes = 0;       ///< Held from the page provider.
  std::int64_t peak_live_bytes = 0;      ///< Since the start or the last reset_peak().
  std::int64_t peak_reserved_bytes = 0;  ///< The same.
  std::int64_t page_count = 0;
  std::uint64_t acquire_count = 0;  ///< Blocks given out since the start.

  /// 1 − largest free piece / free bytes: 0 when all that is free lies together or nothing is free.
  [[nodiscard]] double fragmentation() const noexcept {
    return free_bytes == 0
               ? 0.0
               : 1.0 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
  }
};

/// How often the device was short of memory, and which step of the ladder helped. Counts since the
/// start.
struct MemoryRungs {
  std::uint64_t trim_count = 0;     ///< Idle pages were given back to make room for others.
  std::uint64_t borrow_count = 0;   ///< A block went into pages kept for another kind.
  std::uint64_t unstage_count = 0;  ///< The driver had no more: host memory kept for copies went.
  std::uint64_t wait_count = 0;     ///< An op waited until others had released memory.
  std::uint64_t refuse_count = 0;   ///< Nothing helped: out_of_memory.
};

/// A kind of pages and what lies in them: a line of the pool table.
struct PoolUsage {
  std::string_view name;  ///< Of static storage.
  std::int64_t reserved_bytes = 0;
  std::int64_t free_bytes = 0;
  std::int64_t largest_free_bytes = 0;
  std::int64_t page_count = 0;
};

struct MemoryReport {
  std::int64_t budget_bytes = 0;
  MemoryUsage total;
  MemoryUsage temporary;             ///< Activations, gradients, everything short-lived.
  MemoryUsage exclusive;             ///< Weights and optimizer state.
  std::uint64_t in_place_count = 0;  ///< Ops that wrote into an input's bytes instead of acquiring.
  std::int64_t in_place_bytes = 0;   ///< What they did not acquire.
  std::uint64_t page_acquire_count = 0;  ///< Pages had from the provider since the start.
  std::uint64_t give_back_count = 0;  ///< Free bytes went back to the machine so that not much more
                                      ///< is held than was ever live.
  MemoryRungs rungs;
  std::int64_t pinned_bytes = 0;   ///< Of the host's memory, outside of the budget: what copies to
                                   ///< and from the device go through, until trim().
  std::uint64_t damage_count = 0;  ///< debug only: writes outside of blocks, or after a release.
  std::string refusal = {};        ///< What the machine said when it gave no page, the last time.
  std::vector<PoolUsage> pools = {};  ///< Made by report(), in the strategy's order.
};

}  // namespace hearth
