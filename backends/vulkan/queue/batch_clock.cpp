#include "batch_clock.hpp"

namespace hearth::vulkan {
namespace {

// Writes a timestamp when all earlier commands have ended.
void write_timestamp(const VulkanDevice& device,
                     VkCommandBuffer commands,
                     VkQueryPool pool,
                     std::uint32_t index) {
  device.api().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, index);
}

}  // namespace

BatchClock::~BatchClock() {
  for (const VkQueryPool pool : free_) {
    device_.api().vkDestroyQueryPool(device_.handle(), pool, nullptr);
  }
}

BatchQueries BatchClock::begin(VkCommandBuffer commands) {
  BatchQueries queries;
  if (device_.limits().timestamp_bits == 0) {
    return queries;
  }
  if (!free_.empty()) {
    queries.pool = free_.back();
    free_.pop_back();
  } else {
    VkQueryPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = gpu::TimedBatch::kMostTimestamps;
    if (device_.api().vkCreateQueryPool(device_.handle(), &info, nullptr, &queries.pool) !=
        VK_SUCCESS) {
      return {};
    }
  }
  device_.api().vkCmdResetQueryPool(commands, queries.pool, 0, gpu::TimedBatch::kMostTimestamps);
  return queries;
}

void BatchClock::next(const VulkanDevice& device,
                      VkCommandBuffer commands,
                      BatchQueries& queries,
                      std::uint32_t number,
                      bool is_behind_barrier) {
  if (queries.pool == VK_NULL_HANDLE) [[likely]] {
    return;
  }
  if (queries.timed.add(number, is_behind_barrier)) {
    write_timestamp(device, commands, queries.pool, queries.timed.written - 1);
  }
}

void BatchClock::end(const VulkanDevice& device, VkCommandBuffer commands, BatchQueries& queries) {
  if (queries.pool == VK_NULL_HANDLE) [[likely]] {
    return;
  }
  write_timestamp(device, commands, queries.pool, queries.timed.written++);
  queries.timed.submitted = gpu::LaunchClock::now();
}

void BatchClock::read(BatchQueries queries) {
  if (queries.pool == VK_NULL_HANDLE) [[likely]] {
    return;
  }
  std::vector<std::uint64_t> ticks(queries.timed.written);
  const VkResult result = device_.api().vkGetQueryPoolResults(device_.handle(),
                                                              queries.pool,
                                                              0,
                                                              queries.timed.written,
                                                              ticks.size() * sizeof ticks[0],
                                                              ticks.data(),
                                                              sizeof ticks[0],
                                                              VK_QUERY_RESULT_64_BIT);
  free_.push_back(queries.pool);
  if (result != VK_SUCCESS) {
    return;
  }
  std::vector<std::chrono::nanoseconds> stamps;
  for (const std::uint64_t tick : ticks) {
    const double time = static_cast<double>(tick) * device_.limits().timestamp_ns;
    stamps.emplace_back(static_cast<std::int64_t>(time));
  }
  clock_.add(queries.timed, stamps);
}

void BatchClock::forget(const BatchQueries& queries) {
  if (queries.pool != VK_NULL_HANDLE) {
    free_.push_back(queries.pool);
  }
}

}  // namespace hearth::vulkan
