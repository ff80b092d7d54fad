// A Vulkan queue with its timeline: records batches as commands, and submits them. Owned by the
// stream of its batches. Threads: as Queue.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/gpu/device/gpu_device.hpp"
#include "backends/gpu/launches/queue.hpp"
#include "backends/vulkan/device/vulkan_device.hpp"
#include "batch_clock.hpp"

namespace hearth::vulkan {

class VulkanQueue final : public gpu::Queue {
 public:
  struct Options {
    VkPipelineLayout layout = VK_NULL_HANDLE;  ///< Layout of kernels' pipelines.
    std::uint64_t loop_word = 0;               ///< Address of LoopWatch's word; 0: none.
  };

  /// Errors: those of Vulkan.
  [[nodiscard]] static Result<std::shared_ptr<VulkanQueue>> make(
      std::shared_ptr<const VulkanDevice> device, gpu::QueueWork work, const Options& options);
  [[nodiscard]] static Result<std::shared_ptr<VulkanQueue>> make(
      std::shared_ptr<const VulkanDevice> device, gpu::QueueWork work) {
    return make(std::move(device), work, Options{});
  }
  ~VulkanQueue() override;
  VulkanQueue(const VulkanQueue&) = delete;
  VulkanQueue& operator=(const VulkanQueue&) = delete;

  /// Threads: any.
  [[nodiscard]] VkSemaphore semaphore() const noexcept { return semaphore_; }
  [[nodiscard]] const std::string& device_name() const noexcept override { return device_->name(); }
  /// For parameters that are too long for push constants.
  [[nodiscard]] gpu::ParameterRing parameter_ring() const noexcept override {
    return {ring_.bytes(), ring_.size_bytes()};
  }
  [[nodiscard]] Result<std::unique_ptr<gpu::BatchObjects>> make_objects() override;
  [[nodiscard]] Status begin(gpu::Batch& batch) override;
  void record(gpu::Batch& batch) override;
  [[nodiscard]] Status run(gpu::Batch& batch) override;
  [[nodiscard]] Result<std::uint64_t> completed() const override;
  [[nodiscard]] Status wait_until(std::uint64_t value) const override {
    return device_->wait_until(semaphore_, value);
  }
  [[nodiscard]] Error abandon(std::string_view call) const override {
    return device_->abandon(call, VK_ERROR_OUT_OF_HOST_MEMORY);
  }
  void time(gpu::Batch& batch) override;
  void read_times(gpu::Batch& batch) override;
  void forget_times(gpu::Batch& batch) noexcept override;
  [[nodiscard]] std::vector<LaunchTime> take_times() override { return clock_.take(); }

 private:
  class Commands;

  VulkanQueue(std::shared_ptr<const VulkanDevice> device,
              gpu::QueueWork work,
              const Options& options) noexcept;
  void record_dispatches(gpu::Batch& batch, Commands& commands) const;
  void record_copies(const gpu::Batch& batch, const Commands& commands) const;
  [[nodiscard]] Status submit(const gpu::Batch& batch, const Commands& commands) const;
  [[nodiscard]] static Commands& commands_of(const gpu::Batch& batch) noexcept;

  std::shared_ptr<const VulkanDevice> device_;
  const gpu::QueueWork work_;
  const Options options_;
  VkQueue queue_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  BatchClock clock_;
  Buffer ring_;
};

/// The timeline of a queue of this backend.
[[nodiscard]] inline VkSemaphore semaphore_of(const gpu::Queue& queue) noexcept {
  return static_cast<const VulkanQueue&>(queue).semaphore();
}

}  // namespace hearth::vulkan
