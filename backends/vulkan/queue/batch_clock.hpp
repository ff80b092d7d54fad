// Measures when launches ran, for traces, in the host's time. The device writes one timestamp
// before the first run of dispatches, and one behind each run of one launch. A batch begins after
// its submission and ends before the host sees its end. Each batch thus bounds the difference of
// the two clocks more closely.
// Owned by a queue. Threads: owner only, except next() and end().
// Invariants: (1) a batch without a timed launch has no timestamp; (2) the times of a batch's runs
// follow one another without gaps, so no time counts twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <hearth/backends/backend.hpp>

#include "backends/vulkan/device/vulkan_device.hpp"

namespace hearth::vulkan {

/// The timestamps of one batch.
struct BatchQueries {
  /// Consecutive dispatches of one launch.
  struct Run {
    std::uint32_t number = 0;  ///< Launch::timed_as; 0: the launch is not timed.
    std::uint32_t end = 0;     ///< Index of the end timestamp; the previous one is the begin.
    bool is_behind_barrier = false;
  };

  VkQueryPool pool = VK_NULL_HANDLE;
  std::uint32_t written = 0;  ///< Number of timestamps written.
  std::vector<Run> runs = {};
  std::chrono::nanoseconds submitted = {};  ///< Time of submission, by the host's clock.
};

class BatchClock final {
 public:
  /// Timestamps of a batch, more than the launches of a batch that begins without a flush. The last
  /// runs of a longer batch share one timestamp.
  static constexpr std::uint32_t kMostTimestamps = 256;

  explicit BatchClock(const VulkanDevice& device) noexcept : device_(device) {}
  BatchClock(const BatchClock&) = delete;
  BatchClock& operator=(const BatchClock&) = delete;
  ~BatchClock();

  /// Begins timing, at a batch's first timed dispatch. The result has no query pool if the device
  /// has no timestamps or the driver creates no pool.
  [[nodiscard]] BatchQueries begin(VkCommandBuffer commands);
  /// Notes that a dispatch of launch `number` is recorded next, behind its barrier if it has one.
  /// Threads: any thread that owns the batch.
  static void next(const VulkanDevice& device,
                   VkCommandBuffer commands,
                   BatchQueries& queries,
                   std::uint32_t number,
                   bool is_behind_barrier);
  /// Ends the timing of a batch, as the last command before its submission. Threads: as next().
  static void end(const VulkanDevice& device, VkCommandBuffer commands, BatchQueries& queries);
  /// Reads the timestamps of a batch that has ended.
  void read(BatchQueries queries);
  [[nodiscard]] std::vector<LaunchTime> take() { return std::exchange(times_, {}); }
  /// Frees the queries of a batch that was never submitted, when the stream ends.
  void forget(const BatchQueries& queries);

 private:
  void add_runs(const BatchQueries& queries, const std::vector<std::chrono::nanoseconds>& stamps);

  const VulkanDevice& device_;
  std::vector<VkQueryPool> free_;
  std::vector<LaunchTime> times_;
  /// The host's clock minus the device's.
  std::optional<std::chrono::nanoseconds> difference_;
};

}  // namespace hearth::vulkan
