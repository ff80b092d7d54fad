// A Vulkan device as the GpuDevice of gpu's backend: its facts, buffers, queues and pipelines.
// Threads: as gpu::GpuDevice.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/gpu/device/gpu_device.hpp"
#include "backends/vulkan/device/vulkan_device.hpp"
#include "backends/vulkan/pipelines/pipeline_compiler.hpp"

namespace hearth::vulkan {

class VulkanGpu final : public gpu::GpuDevice {
 public:
  /// Errors: out_of_memory; those of Vulkan.
  [[nodiscard]] static Result<std::shared_ptr<const VulkanGpu>> make(
      std::shared_ptr<const VulkanDevice> device);
  VulkanGpu(const VulkanGpu&) = delete;
  VulkanGpu& operator=(const VulkanGpu&) = delete;
  ~VulkanGpu() override = default;

  [[nodiscard]] const gpu::DeviceFacts& facts() const noexcept override { return facts_; }
  [[nodiscard]] std::shared_ptr<gpu::KernelCompiler> compiler() const override { return compiler_; }
  [[nodiscard]] Result<std::shared_ptr<gpu::Queue>> make_queue(gpu::QueueWork work) const override;
  [[nodiscard]] Result<std::unique_ptr<gpu::MemoryPiece>> make_memory(
      std::int64_t size_bytes, gpu::MemoryPlace place) const override;
  [[nodiscard]] Result<bool> wait(std::span<const gpu::QueueValue> values,
                                  gpu::WaitFor how,
                                  std::chrono::nanoseconds limit) const override;
  void drain() const noexcept override;
  [[nodiscard]] bool is_abandoned() const noexcept override { return device_->is_abandoned(); }
  [[nodiscard]] std::string fault_text() const override { return device_->fault_text(); }
  /// Reports loops that a driver in software has left early.
  [[nodiscard]] std::string_view flaw() const noexcept override;
  [[nodiscard]] gpu::AbandonedObjects& abandoned_objects() const noexcept override {
    return device_->abandoned_objects();
  }

 private:
  VulkanGpu(std::shared_ptr<const VulkanDevice> device, std::shared_ptr<PipelineCompiler> compiler);

  std::shared_ptr<const VulkanDevice> device_;
  std::shared_ptr<PipelineCompiler> compiler_;
  gpu::DeviceFacts facts_;
};

}  // namespace hearth::vulkan
