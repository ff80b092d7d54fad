#include "batch_clock.hpp"

#include <algorithm>
#include <array>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::vulkan {
namespace {

std::chrono::nanoseconds now() {
  return hearth::detail::current_context().clock().now().time_since_epoch();
}

}  // namespace

BatchClock::~BatchClock() {
  for (const VkQueryPool pool : free_) {
    device_.api().vkDestroyQueryPool(device_.handle(), pool, nullptr);
  }
}

void BatchClock::keep(bool keeps) noexcept {
  keeps_ = keeps && device_.limits().timestamp_bits > 0;
  if (!keeps_) {
    times_.clear();
  }
}

BatchQueries BatchClock::begin(VkCommandBuffer commands) {
  BatchQueries queries;
  if (!keeps_) [[likely]] {
    return queries;
  }
  if (!free_.empty()) {
    queries.pool = free_.back();
    free_.pop_back();
  } else {
    VkQueryPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = 2;
    if (device_.api().vkCreateQueryPool(device_.handle(), &info, nullptr, &queries.pool) !=
        VK_SUCCESS) {
      return {};
    }
  }
  device_.api().vkCmdResetQueryPool(commands, queries.pool, 0, 2);
  device_.api().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, queries.pool, 0);
  return queries;
}

void BatchClock::end(const VulkanDevice& device, VkCommandBuffer commands, BatchQueries& queries) {
  if (queries.pool == VK_NULL_HANDLE) [[likely]] {
    return;
  }
  device.api().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries.pool, 1);
  queries.submitted = now();
}

std::chrono::nanoseconds BatchClock::on_host(std::uint64_t ticks) const noexcept {
  const double time = static_cast<double>(ticks) * device_.limits().timestamp_ns;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(time));
}

void BatchClock::read(std::uint64_t value, const BatchQueries& queries) {
  if (queries.pool == VK_NULL_HANDLE) [[likely]] {
    return;
  }
  std::array<std::uint64_t, 2> ticks{};
  const VkResult result = device_.api().vkGetQueryPoolResults(device_.handle(),
                                                              queries.pool,
                                                              0,
                                                              2,
                                                              sizeof ticks,
                                                              ticks.data(),
                                                              sizeof(std::uint64_t),
                                                              VK_QUERY_RESULT_64_BIT);
  free_.push_back(queries.pool);
  if (result != VK_SUCCESS || !keeps_ || ticks[1] < ticks[0]) {
    return;  // nobody asks any more, or the clock has begun anew
  }
  const std::chrono::nanoseconds begin = on_host(ticks[0]);
  const std::chrono::nanoseconds end = on_host(ticks[1]);
  const std::chrono::nanoseconds most = now() - end;
  const std::chrono::nanoseconds least = queries.submitted - begin;
  difference_ = std::max(std::min(difference_.value_or(most), most), least);
  times_.push_back({.value = value, .begin = begin + *difference_, .end = end + *difference_});
}

void BatchClock::forget(const BatchQueries& queries) {
  if (queries.pool != VK_NULL_HANDLE) {
    free_.push_back(queries.pool);
  }
}

}  // namespace hearth::vulkan
