// When batches ran, by the device's clock, for traces: two timestamps a batch, as times of the
// host. The host's clock is found from what the host sees: a batch begins after it was submitted
// and ends before that is seen, which bounds the difference of the clocks more closely with each.
// Owned by a command stream. Threads: owner only, but for end().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <hearth/backends/backend.hpp>

#include "vulkan_device.hpp"

namespace hearth::vulkan {

/// The timestamps of one batch.
struct BatchQueries {
  VkQueryPool pool = VK_NULL_HANDLE;
  std::chrono::nanoseconds submitted = {};  ///< By the host's clock.
};

class BatchClock final {
 public:
  explicit BatchClock(const VulkanDevice& device) noexcept : device_(device) {}
  BatchClock(const BatchClock&) = delete;
  BatchClock& operator=(const BatchClock&) = delete;
  ~BatchClock();

  /// Whether batches are timed from here on; never on a device without timestamps.
  void keep(bool keeps) noexcept;
  /// A batch's commands begin; nothing where none are kept, or the driver gives no room for them.
  [[nodiscard]] BatchQueries begin(VkCommandBuffer commands);
  /// They end, and are submitted next. Threads: any, of a batch that is its own.
  static void end(const VulkanDevice& device, VkCommandBuffer commands, BatchQueries& queries);
  /// The batch has ended.
  void read(std::uint64_t value, const BatchQueries& queries);
  [[nodiscard]] std::vector<BatchTime> take() { return std::exchange(times_, {}); }
  /// For the end of the stream, when a batch was never submitted.
  void forget(const BatchQueries& queries);

 private:
  [[nodiscard]] std::chrono::nanoseconds on_host(std::uint64_t ticks) const noexcept;

  const VulkanDevice& device_;
  bool keeps_ = false;
  std::vector<VkQueryPool> free_;
  std::vector<BatchTime> times_;
  /// Of the host's clock beyond the device's.
  std::optional<std::chrono::nanoseconds> difference_;
};

}  // namespace hearth::vulkan
