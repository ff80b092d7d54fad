#include "vulkan_gpu.hpp"

#include <utility>
#include <vector>

#include "backends/vulkan/queue/vulkan_queue.hpp"

namespace hearth::vulkan {
namespace {

class BufferPiece final : public gpu::MemoryPiece {
 public:
  BufferPiece(std::shared_ptr<const VulkanDevice> device, Buffer buffer) noexcept
      : MemoryPiece(buffer.bytes(), buffer.size_bytes(), piece_of(buffer.handle())),
        device_(std::move(device)),
        buffer_(std::move(buffer)) {}
  BufferPiece(const BufferPiece&) = delete;
  BufferPiece& operator=(const BufferPiece&) = delete;
  ~BufferPiece() override = default;

 private:
  std::shared_ptr<const VulkanDevice> device_;  ///< Outlives the buffer.
  Buffer buffer_;
};

}  // namespace

VulkanGpu::VulkanGpu(std::shared_ptr<const VulkanDevice> device,
                     std::shared_ptr<PipelineCompiler> compiler)
    : device_(std::move(device)),
      compiler_(std::move(compiler)),
      facts_{.name = device_->name(),
             .card = device_->physical().name,
             .description = device_->description(),
             .fingerprint = device_->fingerprint(),
             .limits = device_->limits(),
             .memory_bytes = device_->memory_bytes(),
             .largest_piece_bytes = device_->largest_buffer_bytes(),
             .is_unified = device_->is_unified()} {}

Result<std::shared_ptr<const VulkanGpu>> VulkanGpu::make(
    std::shared_ptr<const VulkanDevice> device) {
  HEARTH_TRY(std::shared_ptr<PipelineCompiler> compiler, PipelineCompiler::make(device));
  return std::shared_ptr<const VulkanGpu>(
      new VulkanGpu(std::move(device), std::move(compiler)));  // NOLINT
}

Result<std::shared_ptr<gpu::Queue>> VulkanGpu::make_queue(gpu::QueueWork work) const {
  HEARTH_TRY(
      std::shared_ptr<VulkanQueue> queue,
      VulkanQueue::make(
          device_, work, {.layout = compiler_->layout(), .loop_word = compiler_->loop_word()}));
  return std::shared_ptr<gpu::Queue>(std::move(queue));
}

Result<std::unique_ptr<gpu::MemoryPiece>> VulkanGpu::make_memory(std::int64_t size_bytes,
                                                                 gpu::MemoryPlace place) const {
  HEARTH_TRY(Buffer buffer, device_->make_buffer(size_bytes, place));
  return std::unique_ptr<gpu::MemoryPiece>(
      std::make_unique<BufferPiece>(device_, std::move(buffer)));
}

Result<bool> VulkanGpu::wait(std::span<const gpu::QueueValue> values,
                             gpu::WaitFor how,
                             std::chrono::nanoseconds limit) const {
  std::vector<VkSemaphore> semaphores;
  std::vector<std::uint64_t> reached;
  for (const gpu::QueueValue& each : values) {
    semaphores.push_back(semaphore_of(*each.queue));
    reached.push_back(each.value);
  }
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.flags = how == gpu::WaitFor::any ? VkSemaphoreWaitFlags{VK_SEMAPHORE_WAIT_ANY_BIT} : 0;
  info.semaphoreCount = static_cast<std::uint32_t>(semaphores.size());
  info.pSemaphores = semaphores.data();
  info.pValues = reached.data();
  const VkResult result = device_->api().vkWaitSemaphores(
      device_->handle(), &info, static_cast<std::uint64_t>(limit.count()));
  if (result != VK_SUCCESS && result != VK_TIMEOUT) {
    return device_->failed("vkWaitSemaphores", result);
  }
  return result == VK_SUCCESS;
}

void VulkanGpu::drain() const noexcept {
  device_->api().vkDeviceWaitIdle(device_->handle());
}

std::string_view VulkanGpu::flaw() const noexcept {
  if (!compiler_->has_ended_loop_early()) [[likely]] {
    return {};
  }
  return "a kernel needed more steps than this driver in software lets loops take (65,535), and "
         "what it has computed is wrong; the same op runs on cpu:0, on a GPU, or in smaller "
         "pieces";
}

}  // namespace hearth::vulkan
