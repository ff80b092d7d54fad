// A queue of a CUDA device: a stream. Value n of its timeline is an event behind batch n.
// Threads: as gpu::Queue.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <hearth/runtime/base/sync.hpp>

#include "backends/cuda/device/cuda_device.hpp"
#include "backends/gpu/launches/queue.hpp"
#include "event_clock.hpp"
#include "graph_cache.hpp"

namespace hearth::cuda {

class CudaQueue final : public gpu::Queue {
 public:
  /// Errors: those of CUDA.
  [[nodiscard]] static Result<std::shared_ptr<CudaQueue>> make(
      std::shared_ptr<const CudaDevice> device, bool has_kernels);
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;
  ~CudaQueue() override;

  [[nodiscard]] const std::string& device_name() const noexcept override { return device_->name(); }
  /// Host memory: the driver copies parameters when a kernel is launched.
  [[nodiscard]] gpu::ParameterRing parameter_ring() const noexcept override;
  [[nodiscard]] Result<std::unique_ptr<gpu::BatchObjects>> make_objects() override;
  [[nodiscard]] Status begin(gpu::Batch& batch) override;
  /// Does nothing: a stream would run what it has at once, before the batch's waits are known.
  void record(gpu::Batch& batch) override;
  [[nodiscard]] Status run(gpu::Batch& batch) override;
  [[nodiscard]] Result<std::uint64_t> completed() const override HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Status wait_until(std::uint64_t value) const override;
  [[nodiscard]] Error abandon(std::string_view call) const override;

  void time(gpu::Batch& batch) override;
  void read_times(gpu::Batch& batch) override;
  void forget_times(gpu::Batch& batch) noexcept override;
  [[nodiscard]] std::vector<LaunchTime> take_times() override { return clock_.take(); }

 private:
  /// The end of a batch in the stream.
  struct End {
    CUevent event = nullptr;
    std::uint64_t value = 0;
  };

  CudaQueue(std::shared_ptr<const CudaDevice> device, bool has_kernels);
  /// False if the batch waits for one that never runs, so that it never runs either.
  [[nodiscard]] Result<bool> wait_for(const gpu::Batch& batch) const;
  [[nodiscard]] Status launch(gpu::Batch& batch);
  [[nodiscard]] Status launch_timed(gpu::Batch& batch) const;
  [[nodiscard]] Status launch_kernel(gpu::Dispatch& dispatch) const;
  [[nodiscard]] Status call(const gpu::Dispatch& dispatch) const;
  [[nodiscard]] Status copy(const gpu::Batch& batch) const;
  [[nodiscard]] Status mark_end(const gpu::Batch& batch) HEARTH_EXCLUDES(mutex_);
  [[nodiscard]] Result<CUevent> take_event() HEARTH_EXCLUDES(mutex_);
  /// Lets `stream` wait until this queue reaches the value. kNotReady: it never will.
  [[nodiscard]] CUresult let_wait(const DriverApi& api, CUstream stream, std::uint64_t value) const
      HEARTH_EXCLUDES(mutex_);

  std::shared_ptr<const CudaDevice> device_;
  CUstream stream_ = nullptr;
  std::vector<std::byte> ring_;
  GraphCache graphs_;
  mutable hearth::detail::Mutex mutex_;
  mutable std::deque<End> ends_ HEARTH_GUARDED_BY(mutex_);       ///< In order; not reached yet.
  mutable std::vector<CUevent> free_ HEARTH_GUARDED_BY(mutex_);  ///< Events to use again.
  mutable std::atomic<std::uint64_t> reached_{0};
  mutable std::atomic<bool> hangs_{false};  ///< The last wait exceeded its limit.
  EventClock clock_;
};

}  // namespace hearth::cuda
