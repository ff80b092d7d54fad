// Which bytes the dispatches since the last barrier read and wrote: whether the next one has to
// wait for them. A barrier a dispatch costs 1.7 to 1.9 us of an H200's time, none 0.2, so launches
// that touch different bytes go without (design study, M15). Touched by the owner only. Invariant:
// two dispatches of which one writes what the other touches never stand between the same two
// barriers.
#pragma once

#include <array>
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

/// What launches read, or what they write, since the last barrier. Most of what is asked for meets
/// nothing, so a table of the granules that were touched answers first, and the spans only where it
/// cannot tell. Invariant: where there is a table, and has_long_ is false, each granule of each
/// span has its bit there.
class TouchedBytes final {
 public:
  [[nodiscard]] bool overlaps(std::span<const ByteSpan> spans) const noexcept;
  /// Of the launch at hand. Empty ones add nothing.
  void add(std::span<const ByteSpan> spans);
  /// What the launch at hand touches becomes part of what is known: ops of a stream read the same
  /// tensors, and write one behind the other. Then no launch is at hand.
  void end_launch();
  /// All but what the launch at hand touches.
  void forget_known();
  void clear() noexcept;
  [[nodiscard]] bool is_full() const noexcept { return spans_.size() >= kMost; }

 private:
  /// With more a barrier costs less than the look.
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kFew = 8;  // are looked at without a table
  static constexpr std::uint64_t kGranuleBytes = 256;
  static constexpr std::size_t kWords = 256;  // for 4 MiB; what lies further off falls together
  static constexpr std::uint64_t kWordBits = 64;

  /// The one or two words of a short span, and its bits there.
  struct Bits;
  [[nodiscard]] static bool is_short(const ByteSpan& span) noexcept;
  [[nodiscard]] static Bits bits_of(const ByteSpan& span) noexcept;
  void note(const ByteSpan& span) noexcept;
  void make_table() noexcept;
  void forget_table() noexcept;

  std::vector<ByteSpan> spans_;  ///< Those of the launch at hand are the last ones.
  std::size_t launch_begin_ = 0;
  bool has_table_ = false;
  bool has_long_ = false;
  std::array<std::uint64_t, kWords> granules_{};
};

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
  [[nodiscard]] bool conflicts(std::span<const ByteSpan> reads,
                               std::span<const ByteSpan> writes) const noexcept;

  TouchedBytes reads_;
  TouchedBytes writes_;
};

}  // namespace hearth::vulkan
