#include "vulkan_queue.hpp"

#include <utility>

#include "backends/gpu/text/glsl_prelude.hpp"
#include "backends/vulkan/pipelines/pipeline_compiler.hpp"

namespace hearth::vulkan {
namespace {

constexpr std::int64_t kRingBytes = std::int64_t{4} << 20;

VkPipelineStageFlags stage_of(bool is_kernels) noexcept {
  return is_kernels ? VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT : VK_PIPELINE_STAGE_TRANSFER_BIT;
}

VkQueue queue_of(const VulkanDevice& device, gpu::QueueWork work) noexcept {
  return work == gpu::QueueWork::kernels   ? device.compute_queue()
         : work == gpu::QueueWork::uploads ? device.upload_queue()
                                           : device.download_queue();
}

// Later commands see earlier writes.
void record_barrier(const VulkanDevice& device, VkCommandBuffer commands, bool is_kernels) {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = is_kernels ? VK_ACCESS_SHADER_WRITE_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = is_kernels ? VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT
                                    : VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  device.api().vkCmdPipelineBarrier(
      commands, stage_of(is_kernels), stage_of(is_kernels), 0, 1, &memory, 0, nullptr, 0, nullptr);
}

// Lets the host read the batch's writes once its value is reached.
void barrier_for_host(const VulkanDevice& device, VkCommandBuffer commands, bool is_kernels) {
  VkMemoryBarrier memory{};
  memory.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memory.srcAccessMask = is_kernels ? VK_ACCESS_SHADER_WRITE_BIT : VK_ACCESS_TRANSFER_WRITE_BIT;
  memory.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  device.api().vkCmdPipelineBarrier(commands,
                                    stage_of(is_kernels),
                                    VK_PIPELINE_STAGE_HOST_BIT,
                                    0,
                                    1,
                                    &memory,
                                    0,
                                    nullptr,
                                    0,
                                    nullptr);
}

}  // namespace

/// The commands of one batch.
class VulkanQueue::Commands final : public gpu::BatchObjects {
 public:
  explicit Commands(std::shared_ptr<const VulkanDevice> its_device) noexcept
      : device(std::move(its_device)) {}
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;
  ~Commands() override { device->api().vkDestroyCommandPool(device->handle(), pool, nullptr); }

  std::shared_ptr<const VulkanDevice> device;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  BatchQueries queries = {};
  gpu::KernelHandle bound = gpu::KernelHandle::none;
  bool has_begun = false;  ///< The pool has to be reset before the next batch.
};

VulkanQueue::Commands& VulkanQueue::commands_of(const gpu::Batch& batch) noexcept {
  return static_cast<Commands&>(*batch.objects);
}

VulkanQueue::VulkanQueue(std::shared_ptr<const VulkanDevice> device,
                         gpu::QueueWork work,
                         const Options& options) noexcept
    : device_(std::move(device)),
      work_(work),
      options_(options),
      queue_(queue_of(*device_, work)),
      clock_(*device_) {}

Result<std::shared_ptr<VulkanQueue>> VulkanQueue::make(std::shared_ptr<const VulkanDevice> device,
                                                       gpu::QueueWork work,
                                                       const Options& options) {
  std::shared_ptr<VulkanQueue> queue(new VulkanQueue(std::move(device), work, options));  // NOLINT
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  const VulkanDevice& d = *queue->device_;
  const VkResult result = d.api().vkCreateSemaphore(d.handle(), &info, nullptr, &queue->semaphore_);
  if (result != VK_SUCCESS) {
    return d.failed("vkCreateSemaphore", result);
  }
  if (work == gpu::QueueWork::kernels) {
    HEARTH_TRY(queue->ring_, d.make_buffer(kRingBytes, gpu::MemoryPlace::shared));
  }
  return queue;
}

VulkanQueue::~VulkanQueue() {
  if (semaphore_ != VK_NULL_HANDLE) {
    device_->api().vkDestroySemaphore(device_->handle(), semaphore_, nullptr);
  }
}

Result<std::uint64_t> VulkanQueue::completed() const {
  std::uint64_t value = 0;
  const VkResult result =
      device_->api().vkGetSemaphoreCounterValue(device_->handle(), semaphore_, &value);
  if (result != VK_SUCCESS) {
    return device_->failed("vkGetSemaphoreCounterValue", result);
  }
  return value;
}

// ---- batches ----

Result<std::unique_ptr<gpu::BatchObjects>> VulkanQueue::make_objects() {
  auto commands = std::make_unique<Commands>(device_);
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex =
      work_ == gpu::QueueWork::kernels ? device_->compute_family() : device_->copy_family();
  VkResult result =
      device_->api().vkCreateCommandPool(device_->handle(), &pool, nullptr, &commands->pool);
  if (result != VK_SUCCESS) {
    return device_->failed("vkCreateCommandPool", result);
  }
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandPool = commands->pool;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  result = device_->api().vkAllocateCommandBuffers(device_->handle(), &info, &commands->buffer);
  if (result != VK_SUCCESS) {
    return device_->failed("vkAllocateCommandBuffers", result);
  }
  return std::unique_ptr<gpu::BatchObjects>(std::move(commands));
}

// A batch of copies begins with a barrier, which makes earlier writes visible. For kernels it is
// the barrier of the first dispatch.
Status VulkanQueue::begin(gpu::Batch& batch) {
  Commands& commands = commands_of(batch);
  const DeviceApi& api = device_->api();
  if (std::exchange(commands.has_begun, false)) {
    const VkResult result = api.vkResetCommandPool(device_->handle(), commands.pool, 0);
    if (result != VK_SUCCESS) {
      commands.has_begun = true;
      return device_->failed("vkResetCommandPool", result);
    }
  }
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  commands.has_begun = true;
  commands.bound = gpu::KernelHandle::none;
  const VkResult result = api.vkBeginCommandBuffer(commands.buffer, &info);
  if (result != VK_SUCCESS) {
    return device_->failed("vkBeginCommandBuffer", result);
  }
  if (work_ != gpu::QueueWork::kernels) {
    record_barrier(*device_, commands.buffer, false);
  } else if (options_.loop_word != 0) {
    api.vkCmdPushConstants(commands.buffer,
                           options_.layout,
                           VK_SHADER_STAGE_COMPUTE_BIT,
                           static_cast<std::uint32_t>(gpu::kPushBytes),
                           sizeof options_.loop_word,
                           &options_.loop_word);
  }
  return {};
}

void VulkanQueue::record(gpu::Batch& batch) {
  record_dispatches(batch, commands_of(batch));
}

void VulkanQueue::record_dispatches(gpu::Batch& batch, Commands& commands) const {
  const DeviceApi& api = device_->api();
  for (; batch.recorded < batch.dispatches.size(); ++batch.recorded) {
    const gpu::Dispatch& each = batch.dispatches[batch.recorded];
    BatchClock::next(
        *device_, commands.buffer, commands.queries, each.timed_as, each.is_behind_barrier);
    if (each.is_behind_barrier) {
      record_barrier(*device_, commands.buffer, true);
    }
    if (each.kernel != commands.bound) {
      api.vkCmdBindPipeline(
          commands.buffer, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_of(each.kernel));
      commands.bound = each.kernel;
    }
    if (each.parameter_bytes > 0) {
      api.vkCmdPushConstants(commands.buffer,
                             options_.layout,
                             VK_SHADER_STAGE_COMPUTE_BIT,
                             0,
                             each.parameter_bytes,
                             each.parameters.data());
    }
    api.vkCmdDispatch(commands.buffer, each.grid.x, each.grid.y, each.grid.z);
  }
}

void VulkanQueue::record_copies(const gpu::Batch& batch, const Commands& commands) const {
  for (const gpu::Copy& copy : batch.copies) {
    VkBufferCopy region{};
    region.srcOffset = static_cast<VkDeviceSize>(copy.from.offset_bytes);
    region.dstOffset = static_cast<VkDeviceSize>(copy.to.offset_bytes);
    region.size = static_cast<VkDeviceSize>(copy.size_bytes);
    device_->api().vkCmdCopyBuffer(
        commands.buffer, buffer_of(copy.from.piece), buffer_of(copy.to.piece), 1, &region);
  }
}

// Phases: dispatches and copies; the barrier for the host; the queue.
Status VulkanQueue::run(gpu::Batch& batch) {
  Commands& commands = commands_of(batch);
  record_dispatches(batch, commands);
  record_copies(batch, commands);
  barrier_for_host(*device_, commands.buffer, work_ == gpu::QueueWork::kernels);
  BatchClock::end(*device_, commands.buffer, commands.queries);
  const VkResult result = device_->api().vkEndCommandBuffer(commands.buffer);
  return result == VK_SUCCESS ? submit(batch, commands)
                              : device_->abandon("vkEndCommandBuffer", result);
}

Status VulkanQueue::submit(const gpu::Batch& batch, const Commands& commands) const {
  std::vector<VkSemaphore> semaphores;
  std::vector<std::uint64_t> values;
  for (const gpu::QueueValue& wait : batch.waits) {
    semaphores.push_back(semaphore_of(*wait.queue));
    values.push_back(wait.value);
  }
  const std::vector<VkPipelineStageFlags> stages(semaphores.size(),
                                                 stage_of(work_ == gpu::QueueWork::kernels));
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.waitSemaphoreValueCount = static_cast<std::uint32_t>(values.size());
  timeline.pWaitSemaphoreValues = values.data();
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &batch.value;
  VkSubmitInfo work{};
  work.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  work.pNext = &timeline;
  work.waitSemaphoreCount = static_cast<std::uint32_t>(semaphores.size());
  work.pWaitSemaphores = semaphores.data();
  work.pWaitDstStageMask = stages.data();
  work.commandBufferCount = 1;
  work.pCommandBuffers = &commands.buffer;
  work.signalSemaphoreCount = 1;
  work.pSignalSemaphores = &semaphore_;
  const VkResult result =
      batch.hangs ? VK_SUCCESS : device_->api().vkQueueSubmit(queue_, 1, &work, VK_NULL_HANDLE);
  return result == VK_SUCCESS ? Status() : device_->abandon("vkQueueSubmit", result);
}

// ---- times ----

void VulkanQueue::time(gpu::Batch& batch) {
  Commands& commands = commands_of(batch);
  commands.queries = clock_.begin(commands.buffer);
}

void VulkanQueue::read_times(gpu::Batch& batch) {
  clock_.read(std::exchange(commands_of(batch).queries, {}));
}

void VulkanQueue::forget_times(gpu::Batch& batch) noexcept {
  clock_.forget(std::exchange(commands_of(batch).queries, {}));
}

}  // namespace hearth::vulkan
