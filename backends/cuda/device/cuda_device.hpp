// A device of CUDA: its context, which NVIDIA's own libraries use too, its facts, and its memory.
// Threads: any, unless a function states otherwise. Invariant: no function waits for work of the
// device.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <hearth/runtime/base/deadline.hpp>
#include <hearth/runtime/base/result.hpp>

#include "backends/cuda/driver/cuda_api.hpp"
#include "backends/gpu/device/memory_piece.hpp"
#include "backends/gpu/encoder/device_limits.hpp"
#include "cuda_context.hpp"
#include "listed_devices.hpp"

namespace hearth::cuda {

struct CudaDeviceOptions {
  std::string nvidia_folders = {};  ///< HEARTH_CUDA_LIBRARY_PATH
  std::chrono::nanoseconds wait_limit = kDefaultWait;
  bool allows_tf32 = false;           ///< Sets DeviceLimits::allows_tf32, on sm_80 and later.
  bool interprets_always = false;     ///< Sets DeviceLimits::interprets_always.
  std::uint64_t lost_at_call = 0;     ///< Planned faults, for tests, as in FaultPlan: calls are
  std::uint64_t refused_at_call = 0;  ///< those of checked().
};

class CudaDevice final : public std::enable_shared_from_this<CudaDevice> {
 public:
  /// Errors: not_found; unsupported, for a device older than sm_70; those of CUDA and of
  /// list_devices().
  [[nodiscard]] static Result<std::shared_ptr<const CudaDevice>> open(
      std::string name, int index, const CudaDeviceOptions& options);

  CudaDevice(std::string name,
             std::shared_ptr<const DriverApi> api,
             ListedDevice listed,
             const CudaDeviceOptions& options) noexcept;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() = default;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& card() const noexcept { return listed_.name; }
  [[nodiscard]] const std::string& uuid() const noexcept { return listed_.uuid; }
  /// 90 is sm_90.
  [[nodiscard]] int architecture() const noexcept { return listed_.architecture; }
  [[nodiscard]] std::string description() const;
  /// Card and driver version, the key of stored measurements.
  [[nodiscard]] std::string fingerprint() const;
  [[nodiscard]] const gpu::DeviceLimits& limits() const noexcept { return limits_; }
  [[nodiscard]] std::int64_t memory_bytes() const noexcept { return memory_bytes_; }
  [[nodiscard]] std::chrono::nanoseconds wait_limit() const noexcept { return options_.wait_limit; }
  [[nodiscard]] const std::string& nvidia_folders() const noexcept {
    return options_.nvidia_folders;
  }

  /// The driver, with the device's context current on the calling thread.
  [[nodiscard]] const DriverApi& api() const noexcept {
    api_->cuCtxSetCurrent(context_->handle());
    return *api_;
  }
  [[nodiscard]] CudaContext& context() const noexcept { return *context_; }
  /// The result of a call that runs or observes work. A planned fault takes the call's place.
  template <class Call>
  [[nodiscard]] CUresult checked(const Call& call) const {
    const CUresult fault = planned_fault();
    return fault == kSuccess ? call() : fault;
  }
  [[nodiscard]] Error failed(std::string_view call, CUresult result) const {
    return hearth::cuda::failed(*api_, name_, call, result);
  }
  /// Marks the device as lost after a failed call from which it cannot continue, though the driver
  /// reports no loss.
  [[nodiscard]] Error abandon(std::string_view call, CUresult result) const;
  /// abandon() after an error that failed() made.
  [[nodiscard]] Error abandon_after(Error error) const;
  [[nodiscard]] bool is_abandoned() const noexcept {
    return is_abandoned_.load(std::memory_order_acquire);  // partner: abandon
  }

  /// Errors: out_of_memory; those of CUDA.
  [[nodiscard]] Result<std::unique_ptr<gpu::MemoryPiece>> make_memory(std::int64_t size_bytes,
                                                                      gpu::MemoryPlace place) const;

 private:
  /// The planned fault of this call, counted from 1, or success.
  [[nodiscard]] CUresult planned_fault() const noexcept;
  [[nodiscard]] Result<int> attribute(Attribute which) const;
  [[nodiscard]] Status read_limits();

  std::string name_;
  std::shared_ptr<const DriverApi> api_;
  ListedDevice listed_;
  CudaDeviceOptions options_;
  std::shared_ptr<CudaContext> context_;
  gpu::DeviceLimits limits_;
  std::int64_t memory_bytes_ = 0;
  std::size_t granularity_ = 0;
  mutable std::atomic<bool> is_abandoned_{false};
  mutable std::atomic<std::uint64_t> calls_{0};
};

}  // namespace hearth::cuda
