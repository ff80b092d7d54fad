// The seam between a device and what hands out its memory. The library's strategies are named in
// memory_pooling.hpp; a program may bring its own (DeviceOptions::make_memory,
// examples/memory_strategy.cpp). Owned by the device actor, driven by the holder of its token: no
// locks. Physical streams of a device are numbered 0..3. Stream 0, the home stream, is the in-order
// queue on which ops run. Invariants: (1) a block given out shares no byte with another that is
// out; (2) a released block is given out again at once for work submitted later to the home stream,
// but only after the named values of all other streams were retired; (3) no block moves, and no
// block outlives its strategy.
#pragma once

#include <hearth/memory/memory_report.hpp>
#include <hearth/runtime/base/result.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace hearth {

inline constexpr std::size_t kMaxPhysicalStreams = 4;

/// The timeline value of a block's last use on each physical stream; 0 = never used there.
struct LastUse {
  std::array<std::uint64_t, kMaxPhysicalStreams> values{};

  /// Adds one use; the latest on each stream stays.
  void add(std::size_t stream, std::uint64_t value) noexcept {
    values[stream] = std::max(values[stream], value);
  }
};

enum class PoolKind : std::uint8_t {
  temporary,  ///< Lives for a step or less.
  exclusive,  ///< Weights and optimizer state: kept in pages of their own, so that they never split
              ///< the others.
  scratch,    ///< Lives while one kernel runs, and is another size for the next.
};

enum class Acquire : std::uint8_t {
  ok,
  needs_wait,   ///< Not now, but releases are waiting for a stream: retire() and ask again.
  over_budget,  ///< Would go over the budget, and waiting cannot help.
  exhausted,    ///< The page provider has no more, and waiting cannot help.
};

/// Bytes that are out. A plain handle: copies name the same bytes, one release() gives them back.
struct Block {
  std::byte* data = nullptr;  ///< Never null after Acquire::ok, for 0 bytes too.
  std::int64_t size_bytes =
      0;  ///< As asked for; the bytes behind it up to the next granule belong to the block.
  std::uint64_t ready_after = 0;  ///< Work on the home stream may write at once; a host or another
                                  ///< stream waits for this home value.
  std::uint32_t index = 0;        ///< The strategy's own.
  std::uint32_t heap = 0;         ///< The strategy's own.
};

class MemoryStrategy {
 public:
  MemoryStrategy() = default;
  MemoryStrategy(const MemoryStrategy&) = delete;
  MemoryStrategy& operator=(const MemoryStrategy&) = delete;
  virtual ~MemoryStrategy() = default;

  /// Hands out at least size_bytes (0 is legal), aligned to the provider's alignment; the bytes are
  /// not cleared.
  ///
  /// Errors: none; everything but Acquire::ok leaves `out` alone and changes nothing that is out.
  /// Threads: owner only.
  [[nodiscard]] virtual Acquire acquire(std::int64_t size_bytes, PoolKind kind, Block& out) = 0;
  /// Gives a block back. Host backends, whose work is done when submit returns, name no use at all.
  ///
  /// Threads: owner only.
  virtual void release(const Block& block, const LastUse& last_use) noexcept = 0;
  /// Says that a stream has completed everything up to `value`; values never fall.
  ///
  /// Threads: owner only.
  virtual void retire(std::size_t stream, std::uint64_t value) noexcept = 0;
  /// Counts an op that wrote into its input's bytes instead of acquiring this many.
  virtual void count_in_place(std::int64_t size_bytes) noexcept = 0;
  [[nodiscard]] virtual MemoryReport report() const = 0;
  /// Peaks start again from what is live and reserved now.
  virtual void reset_peak() noexcept = 0;
  /// Returns pages without a block to the provider and says how many bytes that were. Pages that
  /// the home stream may still use stay.
  virtual std::int64_t trim() noexcept = 0;
  /// Whether check() looks at anything. Then the device calls it for every block of each kernel.
  [[nodiscard]] virtual bool is_checked() const noexcept { return false; }
  /// Whether nobody wrote outside of this block, or into released ones, since the last call.
  /// Errors: kernel_failed.
  [[nodiscard]] virtual Status check(const Block& block) {
    static_cast<void>(block);
    return {};
  }
};

}  // namespace hearth
