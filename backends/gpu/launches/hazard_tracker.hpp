// Tracks the bytes that dispatches have read and written since the last barrier, to decide whether
// the next dispatch needs one. A barrier a dispatch costs 1.7 to 1.9 us of an H200's time, a
// dispatch without one 0.2; launches that touch different bytes need none. Threads: owner only.
// Invariant: of two dispatches between the same two barriers, neither writes bytes that the other
// touches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <hearth/backends/kernel.hpp>

namespace hearth::gpu {

/// Bytes by address, [begin, end).
struct ByteSpan {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  [[nodiscard]] bool is_empty() const noexcept { return begin == end; }
  [[nodiscard]] bool overlaps(const ByteSpan& other) const noexcept {
    return begin < other.end && other.begin < end;
  }
};

/// From the first byte of the elements to the last, gaps included.
[[nodiscard]] ByteSpan span_of(const TensorView& view) noexcept;

/// The bytes that launches read, or write, since the last barrier. Most queries overlap nothing, so
/// a table of the touched granules answers first; the spans decide the rest. Invariant: if there is
/// a table and has_long_ is false, each granule of each span has its bit in the table.
class TouchedBytes final {
 public:
  [[nodiscard]] bool overlaps(std::span<const ByteSpan> spans) const noexcept;
  /// Adds spans of the current launch. Empty spans add nothing.
  void add(std::span<const ByteSpan> spans);
  /// Ends the current launch: its spans join the known ones. Spans that known ones contain or
  /// extend are merged: ops of a stream read the same tensors, and write one behind the other.
  void end_launch();
  /// Forgets all spans except those of the current launch.
  void forget_known();
  void clear() noexcept;
  [[nodiscard]] bool is_full() const noexcept { return spans_.size() >= kMost; }

 private:
  /// Beyond this number a barrier costs less than the search.
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kFew = 8;  // searched without a table
  static constexpr std::uint64_t kGranuleBytes = 256;
  static constexpr std::size_t kWords = 256;  // covers 4 MiB; addresses further apart share bits
  static constexpr std::uint64_t kWordBits = 64;

  /// The one or two words of a short span, and its bits there.
  struct Bits;
  [[nodiscard]] static bool is_short(const ByteSpan& span) noexcept;
  [[nodiscard]] static Bits bits_of(const ByteSpan& span) noexcept;
  void note(const ByteSpan& span) noexcept;
  void make_table() noexcept;
  void forget_table() noexcept;

  std::vector<ByteSpan> spans_;  ///< Spans of the current launch come last.
  std::size_t launch_begin_ = 0;
  bool has_table_ = false;
  bool has_long_ = false;
  std::array<std::uint64_t, kWords> granules_{};
};

class HazardTracker final {
 public:
  /// Begins a launch whose dispatches touch these bytes. Returns true if it needs a barrier before
  /// it, and counts that barrier as recorded.
  [[nodiscard]] bool begin(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes);
  /// Adds bytes that the launch touches from its next dispatch on. Returns true if a barrier is
  /// needed, as begin() does.
  [[nodiscard]] bool also(std::span<const ByteSpan> reads, std::span<const ByteSpan> writes);
  /// Notes a barrier. The launch may continue behind it, so its own bytes still count.
  void barrier();
  /// Forgets everything, when a batch begins.
  void clear() noexcept;

 private:
  [[nodiscard]] bool conflicts(std::span<const ByteSpan> reads,
                               std::span<const ByteSpan> writes) const noexcept;

  TouchedBytes reads_;
  TouchedBytes writes_;
};

}  // namespace hearth::gpu
