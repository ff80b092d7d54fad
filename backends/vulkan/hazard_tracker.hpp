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
  /// A launch comes whose dispatches touch these. True: it needs a barrier before it, which is
  /// taken as recorded.
  [[nodiscard]] bool begin(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes);
  /// From its next dispatch on the launch touches these too. True: a barrier, as above.
  [[nodiscard]] bool also(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes);
  /// A barrier was recorded. The launch may go on behind it, so what it touches counts on.
  void barrier();
  /// A batch begins.
  void clear() noexcept;

 private:
  /// Of each kind; with more a barrier costs less than the look.
  static constexpr std::size_t kMost = 64;

  [[nodiscard]] bool conflicts(std::span<const ByteSpan> reads,
                               std::span<const ByteSpan> writes) const noexcept;
  void add(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes);
  /// What the last launch touches becomes part of what is known: ops of a stream read the same
  /// tensors, and write one behind the other. Then no launch is at hand.
  void join_last();

  // Since the last barrier; those of the launch at hand are the last ones.
  std::vector<ByteSpan> reads_;
  std::vector<ByteSpan> writes_;
  std::size_t first_read_ = 0;  // of the launch at hand
  std::size_t first_write_ = 0;
};

}  // namespace hearth::vulkan
