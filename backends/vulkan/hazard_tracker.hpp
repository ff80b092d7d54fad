// Which bytes the dispatches since the last barrier read and wrote: whether the next one has to
// wait for them. A barrier a dispatch costs 1.7 to 1.9 us of an H200's time, none 0.2, so launches
// that touch different bytes go without (design study, M15). Touched by the owner only. Invariant:
// two dispatches of which one writes what the other touches never stand between the same two
// barriers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <hearth/backends/kernel.hpp>

namespace hearth::vulkan {

/// Bytes by address, [begin, end).
struct ByteSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] bool is_empty() const noexcept { return begin == end; }
  [[nodiscard]] bool overlaps(const ByteSpan& other) const noexcept {
    return begin < other.end && other.begin < end;
  }
};

/// From the first byte of the elements to the last, gaps between them included.
[[nodiscard]] ByteSpan span_of(const TensorView& view) noexcept;

class HazardTracker final {
 public:
  /// Whether a dispatch that touches these needs a barrier before it.
  [[nodiscard]] bool needs_barrier(std::span<const ByteSpan> reads,
                                   std::span<const ByteSpan> writes) const noexcept;
  void add(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes);
  /// There was a barrier.
  void clear() noexcept {
    reads_.clear();
    writes_.clear();
  }

 private:
  /// Of each kind; with more a barrier costs less than the look.
  static constexpr std::size_t kMost = 64;

  std::vector<ByteSpan> reads_;
  std::vector<ByteSpan> writes_;
};

}  // namespace hearth::vulkan
