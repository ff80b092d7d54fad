#include "cuda_gpu.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "backends/cuda/device/event_wait.hpp"
#include "backends/cuda/queue/cuda_queue.hpp"

namespace hearth::cuda {

CudaGpu::CudaGpu(std::shared_ptr<const CudaDevice> device,
                 std::shared_ptr<CudaCompiler> compiler,
                 hearth::detail::Log* log)
    : device_(std::move(device)),
      compiler_(std::move(compiler)),
      products_(std::make_unique<BlasProducts>(device_, log)) {
  facts_ = {.name = device_->name(),
            .card = device_->card(),
            .description = fmt::format("{}, {}", device_->description(), compiler_->description()),
            .fingerprint = device_->fingerprint(),
            .limits = device_->limits(),
            .memory_bytes = device_->memory_bytes(),
            .largest_piece_bytes = device_->memory_bytes(),
            .is_unified = false};
}

Result<std::shared_ptr<gpu::Queue>> CudaGpu::make_queue(gpu::QueueWork work) const {
  HEARTH_TRY(std::shared_ptr<CudaQueue> queue,
             CudaQueue::make(device_, work == gpu::QueueWork::kernels));
  return std::shared_ptr<gpu::Queue>(std::move(queue));
}

Result<std::unique_ptr<gpu::MemoryPiece>> CudaGpu::make_memory(std::int64_t size_bytes,
                                                               gpu::MemoryPlace place) const {
  return device_->make_memory(size_bytes, place);
}

Result<bool> CudaGpu::wait(std::span<const gpu::QueueValue> values,
                           gpu::WaitFor how,
                           std::chrono::nanoseconds limit) const {
  return look_until(limit, [&]() -> Result<bool> {
    std::size_t reached = 0;
    for (const gpu::QueueValue& each : values) {
      HEARTH_TRY(const std::uint64_t value, each.queue->completed());
      reached += value >= each.value ? 1U : 0U;
    }
    return how == gpu::WaitFor::any ? reached > 0 : reached == values.size();
  });
}

void CudaGpu::drain() const noexcept {}

// Never destroyed: objects may stay until the process ends.
gpu::AbandonedObjects& CudaGpu::abandoned_objects() const noexcept {
  static auto* const objects = new gpu::AbandonedObjects();  // NOLINT: for the whole process
  return *objects;
}

}  // namespace hearth::cuda
