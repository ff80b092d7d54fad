// When launches ran, by the device's clock, for traces, as times of the host: a timestamp behind
// each run of dispatches of one launch, and one before the first. The host's clock is found from
// what the host sees: a batch begins after it was submitted and ends before that is seen, which
// bounds the difference of the clocks more closely with each.
// Owned by a command stream. Threads: owner only, but for next() and end().
// Invariants: (1) a batch without a launch that is timed has no timestamp; (2) the times of a
// batch's runs follow one another without gaps, so none counts twice.
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
  /// Dispatches of one launch, behind one another.
  struct Run {
    std::uint32_t number = 0;  ///< Launch::timed_as; 0: of no launch that is timed.
    std::uint32_t end = 0;     ///< Its timestamp; the one before it is its begin.
    bool is_behind_barrier = false;
  };

  VkQueryPool pool = VK_NULL_HANDLE;
  std::uint32_t written = 0;  ///< Timestamps.
  std::vector<Run> runs = {};
  std::chrono::nanoseconds submitted = {};  ///< By the host's clock.
};

class BatchClock final {
 public:
  /// Timestamps of a batch: more than launches that a batch has when it begins to run by itself. A
  /// longer one's last runs share the time that is left.
  static constexpr std::uint32_t kMostTimestamps = 256;

  explicit BatchClock(const VulkanDevice& device) noexcept : device_(device) {}
  BatchClock(const BatchClock&) = delete;
  BatchClock& operator=(const BatchClock&) = delete;
  ~BatchClock();

  /// A batch's first dispatch that is timed comes. Without a pool on a device without timestamps,
  /// or where the driver gives no room for one.
  [[nodiscard]] BatchQueries begin(VkCommandBuffer commands);
  /// A dispatch of the launch `number` is recorded next, behind its barrier if it has one. Threads:
  /// any, of a batch that is its own.
  static void next(const VulkanDevice& device,
                   VkCommandBuffer commands,
                   BatchQueries& queries,
                   std::uint32_t number,
                   bool is_behind_barrier);
  /// The batch's commands end, and are submitted next. Threads: as next().
  static void end(const VulkanDevice& device, VkCommandBuffer commands, BatchQueries& queries);
  /// The batch has ended.
  void read(BatchQueries queries);
  [[nodiscard]] std::vector<LaunchTime> take() { return std::exchange(times_, {}); }
  /// For the end of the stream, when a batch was never submitted.
  void forget(const BatchQueries& queries);

 private:
  void add_runs(const BatchQueries& queries, const std::vector<std::chrono::nanoseconds>& stamps);

  const VulkanDevice& device_;
  std::vector<VkQueryPool> free_;
  std::vector<LaunchTime> times_;
  /// Of the host's clock beyond the device's.
  std::optional<std::chrono::nanoseconds> difference_;
};

}  // namespace hearth::vulkan
