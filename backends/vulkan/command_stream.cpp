#include "command_stream.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include <hearth/backends/codegen/glsl_prelude.hpp>

namespace hearth::vulkan {
namespace {

constexpr std::int64_t kRingBytes = std::int64_t{4} << 20;
constexpr std::uint64_t kParameterAlignment = 16;

}  // namespace

Result<std::unique_ptr<CommandStream>> CommandStream::make(
    std::shared_ptr<const VulkanDevice> device, Work work, VkPipelineLayout layout) {
  std::unique_ptr<CommandStream> stream(
      new CommandStream(std::move(device), work, layout));  // NOLINT
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  const VulkanDevice& d = *stream->device_;
  const VkResult result =
      d.api().vkCreateSemaphore(d.handle(), &info, nullptr, &stream->semaphore_);
  if (result != VK_SUCCESS) {
    return d.failed("vkCreateSemaphore", result);
  }
  if (work == Work::kernels) {
    HEARTH_TRY(stream->ring_, d.make_buffer(kRingBytes, BufferPlace::shared));
  }
  return stream;
}

CommandStream::~CommandStream() {
  const DeviceApi& api = device_->api();
  const auto destroy = [&](const Batch& batch) {
    if (batch.pool != VK_NULL_HANDLE) {
      clock_.forget(batch.queries);
      api.vkDestroyCommandPool(device_->handle(), batch.pool, nullptr);
    }
  };
  destroy(open_);
  std::ranges::for_each(running_, destroy);
  std::ranges::for_each(free_, destroy);
  if (semaphore_ != VK_NULL_HANDLE) {
    api.vkDestroySemaphore(device_->handle(), semaphore_, nullptr);
  }
}

Result<std::uint64_t> CommandStream::completed() const {
  std::uint64_t value = 0;
  const VkResult result =
      device_->api().vkGetSemaphoreCounterValue(device_->handle(), semaphore_, &value);
  if (result != VK_SUCCESS) {
    return device_->failed("vkGetSemaphoreCounterValue", result);
  }
  return value;
}

// ---- batches ----

Status CommandStream::retire() {
  if (running_.empty()) {
    return {};
  }
  HEARTH_TRY(const std::uint64_t value, completed());
  while (!running_.empty() && running_.front().value <= value) {
    ring_begin_ = running_.front().parameters_end;
    clock_.read(running_.front().value, std::exchange(running_.front().queries, {}));
    free_.push_back(running_.front());
    running_.pop_front();
  }
  return {};
}

Status CommandStream::wait_for_oldest() {
  if (running_.empty()) {
    return {};
  }
  HEARTH_TRY_STATUS(device_->wait_until(semaphore_, running_.front().value));
  return retire();
}

Result<CommandStream::Batch> CommandStream::take_batch() {
  HEARTH_TRY_STATUS(retire());
  if (!free_.empty()) {
    const Batch batch = free_.back();
    const VkResult result = device_->api().vkResetCommandPool(device_->handle(), batch.pool, 0);
    if (result != VK_SUCCESS) {
      return device_->failed("vkResetCommandPool", result);  // it stays among the free ones
    }
    free_.pop_back();
    return batch;
  }
  Batch batch;
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex =
      work_ == Work::kernels ? device_->compute_family() : device_->copy_family();
  VkResult result =
      device_->api().vkCreateCommandPool(device_->handle(), &pool, nullptr, &batch.pool);
  if (result != VK_SUCCESS) {
    return device_->failed("vkCreateCommandPool", result);
  }
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = batch.pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  result = device_->api().vkAllocateCommandBuffers(device_->handle(), &info, &batch.commands);
  if (result != VK_SUCCESS) {
    device_->api().vkDestroyCommandPool(device_->handle(), batch.pool, nullptr);
    return device_->failed("vkAllocateCommandBuffers", result);
  }
  return batch;
}

// A batch begins with a barrier: what earlier ones wrote is there.
Status CommandStream::open_batch(LaunchAtHand launch) {
  if (has_open()) {
    return {};
  }
  HEARTH_TRY(open_, take_batch());
  open_.value = open_value();
  open_count_ = 0;
  bound_ = VK_NULL_HANDLE;
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  const VkResult result = device_->api().vkBeginCommandBuffer(open_.commands, &begin);
  if (result != VK_SUCCESS) {
    free_.push_back(std::exchange(open_, {}));
    return device_->failed("vkBeginCommandBuffer", result);
  }
  if (loop_word_ != 0) {
    device_->api().vkCmdPushConstants(open_.commands,
                                      layout_,
                                      VK_SHADER_STAGE_COMPUTE_BIT,
                                      static_cast<std::uint32_t>(kPushBytes),
                                      sizeof loop_word_,
                                      &loop_word_);
  }
  open_.queries = clock_.begin(open_.commands);
  record_barrier();
  if (launch == LaunchAtHand::goes_on) {
    hazards_.barrier();
  } else {
    hazards_.clear();
  }
  return {};
}

std::vector<BatchTime> CommandStream::take_times() {
  static_cast<void>(retire());  // a loss is reported by who submits or waits
  return clock_.take();
}

void CommandStream::wait_for(VkSemaphore semaphore, std::uint64_t value) {
  HEARTH_ASSERT(!has_open(), "a batch that is open cannot wait any more");
  waits_.push_back({semaphore, value});
}

// Between two dispatches of a launch. The next batch begins with a barrier, so what the launch
// touches counts on as behind any other.
Status CommandStream::go_on_in_next_batch() {
  HEARTH_TRY_STATUS(flush());
  return open_batch(LaunchAtHand::goes_on);
}

// The batch cannot go on, and its launches count as issued: all that comes behind them would find
// their bytes as they were. So its commands go, and the device with them.
Error CommandStream::give_up(std::string_view call, VkResult result) {
  clock_.forget(std::exchange(open_.queries, {}));
  free_.push_back(std::exchange(open_, {}));
  waits_.clear();
  held_.clear();
  return device_->give_up(call, result);
}

Status CommandStream::flush() {
  if (!has_open()) {
    return {};
  }
  const DeviceApi& api = device_->api();
  barrier_for_host();
  clock_.end(open_.commands, open_.queries);
  VkResult result = api.vkEndCommandBuffer(open_.commands);
  if (result != VK_SUCCESS) {
    return give_up("vkEndCommandBuffer", result);
  }
  std::vector<VkSemaphore> semaphores;
  std::vector<std::uint64_t> values;
  for (const Wait& wait : waits_) {
    semaphores.push_back(wait.semaphore);
    values.push_back(wait.value);
  }
  const VkPipelineStageFlags stage = work_ == Work::kernels ? VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT
                                                            : VK_PIPELINE_STAGE_TRANSFER_BIT;
  const std::vector<VkPipelineStageFlags> stages(semaphores.size(), stage);
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.waitSemaphoreValueCount = static_cast<std::uint32_t>(values.size());
  timeline.pWaitSemaphoreValues = values.data();
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &open_.value;
  VkSubmitInfo submit{};
  submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  submit.pNext = &timeline;
  submit.waitSemaphoreCount = static_cast<std::uint32_t>(semaphores.size());
  submit.pWaitSemaphores = semaphores.data();
  submit.pWaitDstStageMask = stages.data();
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &open_.commands;
  submit.signalSemaphoreCount = 1;
  submit.pSignalSemaphores = &semaphore_;
  const VkQueue queue = work_ == Work::kernels   ? device_->compute_queue()
                        : work_ == Work::uploads ? device_->upload_queue()
                                                 : device_->download_queue();
  result = hangs_ ? VK_SUCCESS : api.vkQueueSubmit(queue, 1, &submit, VK_NULL_HANDLE);
  if (result != VK_SUCCESS) {
    return give_up("vkQueueSubmit", result);
  }
  submitted_ = open_.value;
  open_.parameters_end = ring_end_;
  running_.push_back(std::exchange(open_, {}));
  waits_.clear();
  return {};
}

// ---- what is recorded ----

void CommandStream::barrier() {
  record_barrier();
  hazards_.barrier();
}

void CommandStream::record_barrier() {
  record_held();
  const bool is_kernels = work_ == Work::kernels;
  const VkPipelineStageFlags stage =
      is_kernels ? VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT : VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = is_kernels ? VK_ACCESS_SHADER_WRITE_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = is_kernels ? VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT
                                    : VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  device_->api().vkCmdPipelineBarrier(
      open_.commands, stage, stage, 0, 1, &memory, 0, nullptr, 0, nullptr);
}

// What a batch has written the host may read once its value is reached.
void CommandStream::barrier_for_host() {
  record_held();
  const bool is_kernels = work_ == Work::kernels;
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = is_kernels ? VK_ACCESS_SHADER_WRITE_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  device_->api().vkCmdPipelineBarrier(
      open_.commands,
      is_kernels ? VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT : VK_PIPELINE_STAGE_TRANSFER_BIT,
      VK_PIPELINE_STAGE_HOST_BIT,
      0,
      1,
      &memory,
      0,
      nullptr,
      0,
      nullptr);
}

Status CommandStream::begin_launch(std::span<const ByteSpan> reads,
                                   std::span<const ByteSpan> writes) {
  HEARTH_TRY_STATUS(open_batch());
  if (hazards_.begin(reads, writes)) {
    record_barrier();
  }
  return {};
}

Status CommandStream::also_touches(std::span<const ByteSpan> reads,
                                   std::span<const ByteSpan> writes) {
  HEARTH_TRY_STATUS(open_batch());
  if (hazards_.also(reads, writes)) {
    record_barrier();
  }
  return {};
}

Status CommandStream::dispatch(VkPipeline pipeline, const ParameterBlock& parameters, Grid grid) {
  std::span<const std::byte> bytes = parameters.bytes();
  std::uint64_t address = 0;
  if (bytes.size() > kPushBytes) {
    HEARTH_TRY(address, store(bytes));
    bytes = std::as_bytes(std::span(&address, 1));
  }
  if (shuffle_) [[unlikely]] {
    held_.push_back({pipeline, {bytes.begin(), bytes.end()}, grid});
  } else {
    record(pipeline, bytes, grid);
  }
  ++open_count_;
  return {};
}

void CommandStream::record(VkPipeline pipeline, std::span<const std::byte> parameters, Grid grid) {
  const DeviceApi& api = device_->api();
  if (pipeline != bound_) {
    api.vkCmdBindPipeline(open_.commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    bound_ = pipeline;
  }
  if (!parameters.empty()) {
    api.vkCmdPushConstants(open_.commands,
                           layout_,
                           VK_SHADER_STAGE_COMPUTE_BIT,
                           0,
                           static_cast<std::uint32_t>(parameters.size()),
                           parameters.data());
  }
  api.vkCmdDispatch(open_.commands, grid.x, grid.y, grid.z);
}

void CommandStream::record_held() {
  if (held_.empty()) [[likely]] {
    return;
  }
  std::ranges::shuffle(held_, *shuffle_);
  for (const Held& each : held_) {
    record(each.pipeline, each.parameters, each.grid);
  }
  held_.clear();
}

// A piece never runs over the end of the ring. Room that the open batch itself has filled comes
// back only when that has run: a launch of very many dispatches goes on in a batch of its own.
Result<std::uint64_t> CommandStream::store(std::span<const std::byte> parameters) {
  const auto size = static_cast<std::uint64_t>(ring_.size_bytes());
  const std::uint64_t needed =
      (parameters.size() + kParameterAlignment - 1) / kParameterAlignment * kParameterAlignment;
  std::uint64_t begin = ring_end_;
  if (begin % size + needed > size) {
    begin += size - begin % size;
  }
  while (begin + needed - ring_begin_ > size) {
    if (running_.empty()) {
      HEARTH_TRY_STATUS(go_on_in_next_batch());
    }
    HEARTH_TRY_STATUS(wait_for_oldest());
  }
  ring_end_ = begin + needed;
  std::memcpy(ring_.host() + begin % size, parameters.data(), parameters.size());
  return ring_.address() + begin % size;
}

Status CommandStream::copy(VkBuffer from,
                           std::int64_t from_offset_bytes,
                           VkBuffer to,
                           std::int64_t to_offset_bytes,
                           std::int64_t size_bytes) {
  HEARTH_TRY_STATUS(open_batch());
  VkBufferCopy region{};
  region.srcOffset = static_cast<VkDeviceSize>(from_offset_bytes);
  region.dstOffset = static_cast<VkDeviceSize>(to_offset_bytes);
  region.size = static_cast<VkDeviceSize>(size_bytes);
  device_->api().vkCmdCopyBuffer(open_.commands, from, to, 1, &region);
  ++open_count_;
  return {};
}

}  // namespace hearth::vulkan
