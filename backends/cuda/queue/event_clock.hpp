// Events of batches, for the times of their launches.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/device/cuda_device.hpp"
#include "backends/gpu/launches/batch.hpp"
#include "backends/gpu/launches/launch_clock.hpp"

namespace hearth::cuda {

/// The events of one batch, which later batches use again. Threads: the owner of the batch.
class BatchEvents final : public gpu::BatchObjects {
 public:
  explicit BatchEvents(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  BatchEvents(const BatchEvents&) = delete;
  BatchEvents& operator=(const BatchEvents&) = delete;
  ~BatchEvents() override;

  [[nodiscard]] bool is_timed() const noexcept { return is_timed_; }
  void begin() noexcept;
  void forget() noexcept { is_timed_ = false; }
  /// Notes that `dispatch` is launched next. Without events from the driver the batch has no times.
  /// Errors: device_lost.
  [[nodiscard]] Status next(const gpu::Dispatch& dispatch, CUstream stream);
  /// Ends the timing, behind the last launch. Errors: device_lost.
  [[nodiscard]] Status end(CUstream stream);

 private:
  friend class EventClock;
  [[nodiscard]] Status record(std::size_t index, CUstream stream);

  std::shared_ptr<const CudaDevice> device_;
  bool is_timed_ = false;
  gpu::TimedBatch timed_;
  std::vector<CUevent> events_;
};

/// Owned by a queue. Threads: owner only.
class EventClock final {
 public:
  explicit EventClock(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;
  ~EventClock();

  /// Reads the events of a batch that has ended.
  void read(BatchEvents& batch);
  [[nodiscard]] std::vector<LaunchTime> take() { return clock_.take(); }

 private:
  std::shared_ptr<const CudaDevice> device_;
  /// The last event that was read. The next batch's time counts from it: the driver gives
  /// differences alone, as floats of milliseconds.
  CUevent reference_ = nullptr;
  std::chrono::nanoseconds reference_time_ = {};
  gpu::LaunchClock clock_;
};

}  // namespace hearth::cuda
