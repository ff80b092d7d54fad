// The cores of a CPU device: runs parallel loops over them. Long loops fork on an oneTBB arena
// pinned to the cores. Short loops are shared with threads that are already awake. On one core, a
// loop runs inline. Threads: owner only (the token holder calls; the loop body runs on several
// threads).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hearth::cpu {

/// Most parts into which a kernel cuts its work.
inline constexpr std::int64_t kMaxParts = 64;

/// Number of parts of at most `most` items.
[[nodiscard]] constexpr std::int64_t parts(std::int64_t size, std::int64_t most) noexcept {
  return (size + most - 1) / most;
}

class Arena {
 public:
  /// `cores` are the logical CPUs of this device, at least one. serial: never fork (manual
  /// executor).
  explicit Arena(std::vector<int> cores, bool serial = false);
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();

  [[nodiscard]] int core_count() const noexcept { return static_cast<int>(cores_.size()); }
  [[nodiscard]] const std::vector<int>& cores() const noexcept { return cores_; }

  /// Calls body(begin, end) for consecutive ranges of at most `grain` items that cover [0, count).
  /// The ranges depend on count and grain only. Runs inline if there is one range or one core. body
  /// must not throw.
  template <class Body>
  void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
    if (count <= 0) {
      return;
    }
    if (count <= grain || cores_.size() == 1 || serial_) {
      for (std::int64_t begin = 0; begin < count; begin += grain) {
        body(begin, begin + grain < count ? begin + grain : count);
      }
      return;
    }
    fork(
        count,
        grain,
        [](const void* context, std::int64_t begin, std::int64_t end) {
          (*static_cast<const Body*>(context))(begin, end);
        },
        &body);
  }

  /// Returns the number of threads that can share a loop that is too short to wake one. It exceeds
  /// 1 while such loops follow one another closely. For loops of some microseconds.
  [[nodiscard]] int awake_threads() noexcept { return impl_ == nullptr ? 1 : request_threads(); }

  /// Calls body(begin, end, thread) for ranges of `grain` items that cover [0, count); the last
  /// range may be shorter. Runs on awake threads, numbered below `threads`. Even threads take
  /// ranges from the front, odd ones from the back, until they meet. So most ranges run on the same
  /// thread as in the last loop. body must not throw. Requires threads ≤ awake_threads().
  template <class Body>
  void share(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
    const auto ranges = static_cast<std::uint32_t>((count + grain - 1) / grain);
    if (threads <= 1 || ranges <= 1) {
      for (std::int64_t begin = 0; begin < count; begin += grain) {
        body(begin, std::min(count, begin + grain), 0);
      }
      return;
    }
    Claims claims(ranges);
    const auto work = [&](int thread) {
      while (const std::optional<std::uint32_t> range = claims.take(thread % 2 == 0)) {
        const std::int64_t begin = *range * grain;
        body(begin, std::min(count, begin + grain), thread);
      }
    };
    share_out(
        static_cast<int>(std::min<std::uint32_t>(static_cast<std::uint32_t>(threads), ranges)),
        [](const void* context, int thread, int /*count*/) {
          (*static_cast<const decltype(work)*>(context))(thread);
        },
        &work);
  }
  /// Returns a grain, a multiple of `unit`, with several ranges for each of `threads` threads. So
  /// the other threads take over the ranges of a late one.
  [[nodiscard]] static std::int64_t shared_grain(int threads,
                                                 std::int64_t count,
                                                 std::int64_t unit) {
    constexpr std::int64_t kRanges = 4;
    const std::int64_t units = (count + unit - 1) / unit;
    return std::max<std::int64_t>(1, units / (kRanges * threads)) * unit;
  }

 private:
  using RangeFn = void (*)(const void* context, std::int64_t begin, std::int64_t end);
  // The unclaimed ranges [first, last), packed in one word.
  class Claims {
   public:
    explicit Claims(std::uint32_t count) noexcept : left_(std::uint64_t{count} << 32U) {}
    [[nodiscard]] std::optional<std::uint32_t> take(bool at_front) noexcept {
      std::uint64_t left = left_.load(std::memory_order_relaxed);
      while (true) {
        const auto first = static_cast<std::uint32_t>(left);
        const auto last = static_cast<std::uint32_t>(left >> 32U);
        if (first == last) {
          return std::nullopt;
        }
        const std::uint64_t rest = at_front ? left + 1 : left - (std::uint64_t{1} << 32U);
        if (left_.compare_exchange_weak(left, rest, std::memory_order_relaxed)) {
          return at_front ? first : last - 1;
        }
      }
    }

   private:
    std::atomic<std::uint64_t> left_;
  };
  using ShareFn = void (*)(const void* context, int index, int count);
  void fork(std::int64_t count, std::int64_t grain, RangeFn fn, const void* context);
  [[nodiscard]] int request_threads() noexcept;
  void share_out(int threads, ShareFn fn, const void* context) noexcept;

  struct Impl;
  std::vector<int> cores_;
  bool serial_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hearth::cpu
