#include "batch_clock.hpp"

#include <algorithm>

#include <hearth/runtime/base/clock.hpp>
#include <hearth/runtime/base/thread_context.hpp>

namespace hearth::vulkan {
namespace {

std::chrono::nanoseconds now() {
  return hearth::detail::current_context().clock().now().time_since_epoch();
}

// Writes a timestamp when all earlier commands have ended.
void write_timestamp(const VulkanDevice& device, VkCommandBuffer commands, BatchQueries& queries) {
  device.api().vkCmdWriteTimestamp(
      commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries.pool, queries.written++);
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
    info.queryCount = kMostTimestamps;
    if (device_.api().vkCreateQueryPool(device_.handle(), &info, nullptr, &queries.pool) !=
        VK_SUCCESS) {
      return {};
    }
  }
  device_.api().vkCmdResetQueryPool(commands, queries.pool, 0, kMostTimestamps);
  return queries;
}

// Keeps the last timestamp for the end of the batch.
void BatchClock::next(const VulkanDevice& device,
                      VkCommandBuffer commands,
                      BatchQueries& queries,
                      std::uint32_t number,
                      bool is_behind_barrier) {
  if (queries.pool == VK_NULL_HANDLE) [[likely]] {
    return;
  }
  if (!queries.runs.empty() && queries.runs.back().number == number) {
    return;
  }
  if (queries.written < kMostTimestamps - 1) {
    write_timestamp(device, commands, queries);
  }
  queries.runs.push_back(
      {.number = number, .end = queries.written, .is_behind_barrier = is_behind_barrier});
}

void BatchClock::end(const VulkanDevice& device, VkCommandBuffer commands, BatchQueries& queries) {
  if (queries.pool == VK_NULL_HANDLE) [[likely]] {
    return;
  }
  write_timestamp(device, commands, queries);
  queries.submitted = now();
}

// Phases: the timestamps; the difference of the clocks; a time for each run.
void BatchClock::read(BatchQueries queries) {
  if (queries.pool == VK_NULL_HANDLE) [[likely]] {
    return;
  }
  std::vector<std::uint64_t> ticks(queries.written);
  const VkResult result = device_.api().vkGetQueryPoolResults(device_.handle(),
                                                              queries.pool,
                                                              0,
                                                              queries.written,
                                                              ticks.size() * sizeof ticks[0],
                                                              ticks.data(),
                                                              sizeof ticks[0],
                                                              VK_QUERY_RESULT_64_BIT);
  free_.push_back(queries.pool);
  if (result != VK_SUCCESS || !std::ranges::is_sorted(ticks)) {
    return;  // the clock may have been reset
  }
  std::vector<std::chrono::nanoseconds> stamps;
  for (const std::uint64_t tick : ticks) {
    const double time = static_cast<double>(tick) * device_.limits().timestamp_ns;
    stamps.emplace_back(static_cast<std::int64_t>(time));
  }
  const std::chrono::nanoseconds most = now() - stamps.back();
  const std::chrono::nanoseconds least = queries.submitted - stamps.front();
  difference_ = std::max(std::min(difference_.value_or(most), most), least);
  add_runs(queries, stamps);
}

// Runs before the same timestamp share the time up to it.
void BatchClock::add_runs(const BatchQueries& queries,
                          const std::vector<std::chrono::nanoseconds>& stamps) {
  const std::vector<BatchQueries::Run>& runs = queries.runs;
  for (std::size_t first = 0; first < runs.size();) {
    const std::uint32_t end = runs[first].end;
    std::size_t last = first;
    while (last < runs.size() && runs[last].end == end) {
      ++last;
    }
    const auto count = static_cast<std::int64_t>(last - first);
    const std::chrono::nanoseconds begin = stamps[end - 1] + *difference_;
    const std::chrono::nanoseconds length = stamps[end] - stamps[end - 1];
    for (std::size_t i = first; i < last; ++i) {
      const auto place = static_cast<std::int64_t>(i - first);
      const bool is_apart =
          runs[i].is_behind_barrier && (i + 1 == runs.size() || runs[i + 1].is_behind_barrier);
      if (runs[i].number != 0) {
        times_.push_back({.number = runs[i].number,
                          .begin = begin + length * place / count,
                          .end = begin + length * (place + 1) / count,
                          .is_side_by_side = !is_apart,
                          .is_shared_out = count > 1});
      }
    }
    first = last;
  }
}

void BatchClock::forget(const BatchQueries& queries) {
  if (queries.pool != VK_NULL_HANDLE) {
    free_.push_back(queries.pool);
  }
}

}  // namespace hearth::vulkan
