// Timestamps of batches, for the times of their launches.
// Owned by a queue. Threads: owner only, except next() and end().
// Invariant: a batch without a timed launch has no timestamp.
#pragma once

#include <vector>

#include "backends/gpu/launches/launch_clock.hpp"
#include "backends/vulkan/device/vulkan_device.hpp"

namespace hearth::vulkan {

/// The timestamps of one batch.
struct BatchQueries {
  VkQueryPool pool = VK_NULL_HANDLE;
  gpu::TimedBatch timed = {};
};

class BatchClock final {
 public:
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
  [[nodiscard]] std::vector<LaunchTime> take() { return clock_.take(); }
  /// Frees the queries of a batch that was never submitted, when the stream ends.
  void forget(const BatchQueries& queries);

 private:
  const VulkanDevice& device_;
  std::vector<VkQueryPool> free_;
  gpu::LaunchClock clock_;
};

}  // namespace hearth::vulkan
