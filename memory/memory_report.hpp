// Exact numbers of a device's memory: bytes in use, bytes held from the machine, fragmentation.
// Plain values, a snapshot. Threads: any.
// Invariant: in each usage, reserved_bytes = live_bytes + waiting_bytes + free_bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hearth {

/// Memory of one kind. Bytes are whole granules of the device (64 on a host), so that every sum is
/// exact.
struct MemoryUsage {
  std::int64_t live_bytes = 0;           ///< Bytes of blocks in use.
  std::int64_t live_count = 0;           ///< Number of blocks in use.
  std::int64_t waiting_bytes = 0;        ///< Released bytes that another stream may still use.
  std::int64_t free_bytes = 0;           ///< Bytes ready for the next acquire.
  std::int64_t largest_free_bytes = 0;   ///< Largest free piece.
  std::int64_t reserved_bytes = 0;       ///< Bytes held from the page provider.
  std::int64_t peak_live_bytes = 0;      ///< Peak since the start or the last reset_peak().
  std::int64_t peak_reserved_bytes = 0;  ///< Peak since the start or the last reset_peak().
  std::int64_t page_count = 0;
  std::uint64_t acquire_count = 0;  ///< Blocks acquired since the start.

  /// Returns 1 − largest free piece / free bytes; 0 if the free bytes are contiguous or none.
  [[nodiscard]] double fragmentation() const noexcept {
    return free_bytes == 0
               ? 0.0
               : 1.0 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
  }
};

/// Counts, since the start, of how the device resolved memory shortages, by step of the ladder.
struct MemoryRungs {
  std::uint64_t trim_count = 0;    ///< Idle pages were returned so that a heap could grow.
  std::uint64_t borrow_count = 0;  ///< A block was placed in pages kept for another kind.
  /// The driver had no more memory: host memory kept for copies was freed.
  std::uint64_t unstage_count = 0;
  std::uint64_t wait_count = 0;    ///< An op waited until another released memory.
  std::uint64_t refuse_count = 0;  ///< No step helped: out_of_memory.
};

/// Line of the pool table: one kind of pages.
struct PoolUsage {
  std::string_view name;  ///< Has static storage.
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
  std::int64_t in_place_bytes = 0;   ///< Bytes that those ops did not acquire.
  std::uint64_t page_acquire_count = 0;  ///< Pages allocated from the provider since the start.
  /// Times that free bytes were returned to the machine to keep reserved bytes near the peak of
  /// live bytes.
  std::uint64_t give_back_count = 0;
  MemoryRungs rungs;
  /// Host memory outside the budget: staging buffers of copies to and from the device, held until
  /// trim().
  std::int64_t pinned_bytes = 0;
  std::uint64_t damage_count = 0;     ///< debug only: writes out of bounds or after a release.
  std::string refusal = {};           ///< The provider's last error.
  std::vector<PoolUsage> pools = {};  ///< Filled by report(), in the strategy's order.
};

}  // namespace hearth
