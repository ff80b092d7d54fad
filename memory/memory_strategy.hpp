// The seam between a device and the allocator of its memory. memory_pooling.hpp names the library's
// strategies. A program can bring its own (DeviceOptions::make_memory,
// examples/memory_strategy.cpp).
// Owned by the device actor, driven by the holder of its token: no locks.
// Physical streams of a device are numbered 0..3. Stream 0, the home stream, is the in-order queue
// on which ops run.
// Invariants: (1) a block in use shares no byte with another block in use; (2) later work of the
// home stream may reuse a released block at once, if the named values of all other streams were
// retired; (3) no block moves, and no block outlives its strategy.
#pragma once

#include <hearth/memory/memory_report.hpp>
#include <hearth/runtime/base/result.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth {

inline constexpr std::size_t kMaxPhysicalStreams = 4;

/// Timeline values of a block's last use on each physical stream; 0 = never used there.
struct LastUse {
  std::array<std::uint64_t, kMaxPhysicalStreams> values{};

  /// Adds one use. Keeps the latest value of each stream.
  void add(std::size_t stream, std::uint64_t value) noexcept {
    values[stream] = std::max(values[stream], value);
  }
};

enum class PoolKind : std::uint8_t {
  temporary,  ///< Lives for a step or less.
  /// Weights and optimizer state: kept in pages of their own, so that they never split the others.
  exclusive,
  scratch,  ///< Lives while one kernel runs; the next kernel needs another size.
};

enum class Acquire : std::uint8_t {
  ok,
  needs_wait,   ///< Not now, but releases wait for a stream: call retire() and retry.
  over_budget,  ///< Would exceed the budget, and waiting cannot help.
  exhausted,    ///< The page provider has no more memory, and waiting cannot help.
};

/// Acquired bytes. A plain handle: copies name the same bytes, and one release() returns them.
struct Block {
  std::byte* data = nullptr;  ///< Never null after Acquire::ok, also for 0 bytes.
  /// Requested size. The bytes up to the next granule belong to the block too.
  std::int64_t size_bytes = 0;
  /// Work on the home stream may write at once; the host and other streams wait for this home
  /// value.
  std::uint64_t ready_after = 0;
  std::uint32_t index = 0;  ///< Private to the strategy.
  std::uint32_t heap = 0;   ///< Private to the strategy.
};

class MemoryStrategy {
 public:
  MemoryStrategy() = default;
  MemoryStrategy(const MemoryStrategy&) = delete;
  MemoryStrategy& operator=(const MemoryStrategy&) = delete;
  virtual ~MemoryStrategy() = default;

  /// Acquires at least size_bytes (0 is legal), aligned to the provider's alignment. The bytes are
  /// not cleared.
  ///
  /// Errors: none. Every result but Acquire::ok leaves `out` and all blocks in use unchanged.
  /// Threads: owner only.
  [[nodiscard]] virtual Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) = 0;
  /// Returns a block. Host backends name no use, because their work is complete when submit
  /// returns.
  ///
  /// Threads: owner only.
  virtual void release(const Block& block, const LastUse& last_use) noexcept = 0;
  /// Notifies the strategy that a stream completed everything up to `value`. Values never fall.
  ///
  /// Threads: owner only.
  virtual void retire(std::size_t stream, std::uint64_t value) noexcept = 0;
  /// Counts an op that wrote into its input's size_bytes instead of acquiring as many.
  virtual void count_in_place(std::int64_t size_bytes) noexcept = 0;
  [[nodiscard]] virtual MemoryReport report() const = 0;
  /// Restarts the peaks from what is live and reserved now.
  virtual void reset_peak() noexcept = 0;
  /// Returns pages without a block to the provider. Returns the number of bytes. Keeps pages that
  /// the home stream may still use.
  virtual std::int64_t trim() noexcept = 0;
  /// Returns whether check() is implemented. If so, the device calls it for every block of each
  /// kernel.
  [[nodiscard]] virtual bool is_checked() const noexcept { return false; }
  /// Reports writes outside of this block, or into released ones, since the last call.
  ///
  /// Errors: kernel_failed.
  [[nodiscard]] virtual Status check(const Block& block) {
    static_cast<void>(block);
    return {};
  }
};

}  // namespace hearth
