// A CUDA device as the GpuDevice of gpu's backend: its facts, memory, queues and kernels.
// Threads: as gpu::GpuDevice.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/cuda/device/cuda_device.hpp"
#include "backends/cuda/kernels/cuda_compiler.hpp"
#include "backends/cuda/products/blas_products.hpp"
#include "backends/gpu/device/gpu_device.hpp"

namespace hearth::cuda {

class CudaGpu final : public gpu::GpuDevice {
 public:
  /// `log` receives the lack of cuBLASLt; null: nothing does.
  CudaGpu(std::shared_ptr<const CudaDevice> device,
          std::shared_ptr<CudaCompiler> compiler,
          hearth::detail::Log* log);

  [[nodiscard]] const gpu::DeviceFacts& facts() const noexcept override { return facts_; }
  [[nodiscard]] std::shared_ptr<gpu::KernelCompiler> compiler() const override { return compiler_; }
  [[nodiscard]] gpu::ProductLibrary* products() const noexcept override { return products_.get(); }
  [[nodiscard]] Result<std::shared_ptr<gpu::Queue>> make_queue(gpu::QueueWork work) const override;
  [[nodiscard]] Result<std::unique_ptr<gpu::MemoryPiece>> make_memory(
      std::int64_t size_bytes, gpu::MemoryPlace place) const override;
  [[nodiscard]] Result<bool> wait(std::span<const gpu::QueueValue> values,
                                  gpu::WaitFor how,
                                  std::chrono::nanoseconds limit) const override;
  /// Waits for nothing: a planned loss leaves no work that touches freed memory.
  void drain() const noexcept override;
  [[nodiscard]] bool is_abandoned() const noexcept override { return device_->is_abandoned(); }
  [[nodiscard]] std::string fault_text() const override { return {}; }
  [[nodiscard]] std::string_view flaw() const noexcept override { return {}; }
  [[nodiscard]] gpu::AbandonedObjects& abandoned_objects() const noexcept override;

 private:
  std::shared_ptr<const CudaDevice> device_;
  std::shared_ptr<CudaCompiler> compiler_;
  std::unique_ptr<BlasProducts> products_;
  gpu::DeviceFacts facts_;
};

}  // namespace hearth::cuda
