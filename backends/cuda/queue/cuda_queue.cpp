#include "cuda_queue.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "backends/cuda/device/event_wait.hpp"
#include "backends/cuda/kernels/cuda_compiler.hpp"
#include "backends/cuda/products/blas_products.hpp"

namespace hearth::cuda {
namespace {

constexpr std::size_t kRingBytes = std::size_t{4} << 20U;

BatchEvents& events_of(const gpu::Batch& batch) noexcept {
  return static_cast<BatchEvents&>(*batch.objects);
}

}  // namespace

CudaQueue::CudaQueue(std::shared_ptr<const CudaDevice> device, bool has_kernels)
    : device_(std::move(device)),
      ring_(has_kernels ? kRingBytes : 0),
      graphs_(device_),
      clock_(device_) {}

Result<std::shared_ptr<CudaQueue>> CudaQueue::make(std::shared_ptr<const CudaDevice> device,
                                                   bool has_kernels) {
  constexpr unsigned kNonBlocking = 1;
  std::shared_ptr<CudaQueue> queue(new CudaQueue(std::move(device), has_kernels));  // NOLINT
  const CudaDevice& d = *queue->device_;
  const CUresult result = d.api().cuStreamCreateWithPriority(&queue->stream_, kNonBlocking, 0);
  if (result != kSuccess) {
    queue->stream_ = nullptr;
    return d.failed("cuStreamCreateWithPriority", result);
  }
  return queue;
}

CudaQueue::~CudaQueue() {
  const DriverApi& api = device_->api();
  const hearth::detail::MutexLock lock(mutex_);
  for (const End& end : ends_) {
    api.cuEventDestroy_v2(end.event);
  }
  for (const CUevent event : free_) {
    api.cuEventDestroy_v2(event);
  }
  if (stream_ != nullptr) {
    api.cuStreamDestroy_v2(stream_);
  }
}

gpu::ParameterRing CudaQueue::parameter_ring() const noexcept {
  if (ring_.empty()) {
    return {};
  }
  auto* const host = const_cast<std::byte*>(ring_.data());  // NOLINT: the caller writes into it
  return {.bytes = {.address = reinterpret_cast<std::uintptr_t>(host),  // NOLINT: as a number
                    .host = host},
          .size_bytes = static_cast<std::int64_t>(ring_.size())};
}

Result<std::unique_ptr<gpu::BatchObjects>> CudaQueue::make_objects() {
  return std::unique_ptr<gpu::BatchObjects>(std::make_unique<BatchEvents>(device_));
}

Status CudaQueue::begin(gpu::Batch& /*batch*/) {
  return {};
}

void CudaQueue::record(gpu::Batch& /*batch*/) {}

// ---- the end of batches ----

Result<std::uint64_t> CudaQueue::completed() const {
  const hearth::detail::MutexLock lock(mutex_);
  while (!ends_.empty()) {
    const CUevent event = ends_.front().event;
    const CUresult result = device_->checked([&] { return device_->api().cuEventQuery(event); });
    if (result == kNotReady) {
      break;
    }
    if (result != kSuccess) {
      return device_->failed("cuEventQuery", result);
    }
    reached_.store(ends_.front().value, std::memory_order_release);  // partner: the load below
    free_.push_back(ends_.front().event);
    ends_.pop_front();
  }
  return reached_.load(std::memory_order_acquire);  // partner: the store above
}

Result<CUevent> CudaQueue::take_event() {
  constexpr unsigned kDisableTiming = 2;
  const hearth::detail::MutexLock lock(mutex_);
  if (!free_.empty()) {
    const CUevent event = free_.back();
    free_.pop_back();
    return event;
  }
  CUevent event = nullptr;
  const CUresult result = device_->api().cuEventCreate(&event, kDisableTiming);
  if (result != kSuccess) {
    return device_->failed("cuEventCreate", result);
  }
  return event;
}

Status CudaQueue::mark_end(const gpu::Batch& batch) {
  HEARTH_TRY(const CUevent event, take_event());
  const CUresult result =
      device_->checked([&] { return device_->api().cuEventRecord(event, stream_); });
  const hearth::detail::MutexLock lock(mutex_);
  if (result != kSuccess) {
    free_.push_back(event);
    return device_->abandon("cuEventRecord", result);
  }
  ends_.push_back({.event = event, .value = batch.value});
  return {};
}

CUresult CudaQueue::let_wait(const DriverApi& api, CUstream stream, std::uint64_t value) const {
  const hearth::detail::MutexLock lock(mutex_);
  const auto end = std::ranges::lower_bound(ends_, value, {}, &End::value);
  if (end != ends_.end()) {
    return api.cuStreamWaitEvent(stream, end->event, 0);
  }
  // Values that the queue has reached are no longer in the list.
  const std::uint64_t reached = reached_.load(std::memory_order_acquire);  // partner: completed
  return value <= reached ? kSuccess : kNotReady;
}

Status CudaQueue::wait_until(std::uint64_t value) const {
  HEARTH_TRY(std::uint64_t before, completed());
  while (true) {
    const auto limit = hangs_.load(std::memory_order_acquire) ? std::chrono::nanoseconds(0)
                                                              : device_->wait_limit();
    HEARTH_TRY(const bool has_ended, look_until(limit, [&]() -> Result<bool> {
                 HEARTH_TRY(const std::uint64_t reached, completed());
                 return reached >= value;
               }));
    if (has_ended) {
      hangs_.store(false, std::memory_order_release);  // partner: the next wait
      return {};
    }
    HEARTH_TRY(const std::uint64_t now, completed());
    if (std::exchange(before, now) == now) {
      hangs_.store(true, std::memory_order_release);  // partner: the next wait
      return Error{.code = ErrorCode::deadline_exceeded,
                   .text = fmt::format("{}: submitted work makes no progress", device_name()),
                   .device = device_name()};
    }
  }
}

Error CudaQueue::abandon(std::string_view call) const {
  return device_->abandon(call, kOutOfMemory);
}

// ---- batches ----

// A batch is submitted before others wait for it, unless a test lets it hang.
Result<bool> CudaQueue::wait_for(const gpu::Batch& batch) const {
  const DriverApi& api = device_->api();
  for (const gpu::QueueValue& wait : batch.waits) {
    const auto& queue = static_cast<const CudaQueue&>(*wait.queue);
    const CUresult result =
        device_->checked([&] { return queue.let_wait(api, stream_, wait.value); });
    if (result == kNotReady) {
      return false;
    }
    if (result != kSuccess) {
      return device_->abandon("cuStreamWaitEvent", result);
    }
  }
  return true;
}

// Kernels of one stream run one behind the other, so barriers need no call there. A library's call
// stands between two graphs.
Status CudaQueue::launch(gpu::Batch& batch) {
  const std::span<gpu::Dispatch> all(batch.dispatches);
  for (std::size_t begin = 0; begin < all.size();) {
    if (all[begin].call != nullptr) {
      HEARTH_TRY_STATUS(call(all[begin++]));
      continue;
    }
    std::size_t end = begin;
    while (end < all.size() && all[end].call == nullptr) {
      ++end;
    }
    const std::span<gpu::Dispatch> kernels = all.subspan(begin, end - begin);
    const Result<bool> by_graph = graphs_.launch(kernels, stream_);
    if (!by_graph.has_value()) {
      return device_->abandon_after(by_graph.error());
    }
    if (!by_graph.value()) {
      for (gpu::Dispatch& each : kernels) {
        HEARTH_TRY_STATUS(launch_kernel(each));
      }
    }
    begin = end;
  }
  return {};
}

// Without graphs, which have no place for events between kernels.
Status CudaQueue::launch_timed(gpu::Batch& batch) const {
  BatchEvents& events = events_of(batch);
  for (gpu::Dispatch& each : batch.dispatches) {
    HEARTH_TRY_STATUS(events.next(each, stream_));
    HEARTH_TRY_STATUS(each.call != nullptr ? call(each) : launch_kernel(each));
  }
  return events.end(stream_);
}

Status CudaQueue::launch_kernel(gpu::Dispatch& dispatch) const {
  const CudaKernel& kernel = kernel_of(dispatch.kernel);
  void* parameters = parameters_of(dispatch);
  const CUresult result = device_->checked([&] {
    return device_->api().cuLaunchKernel(kernel.function,
                                         dispatch.grid.x,
                                         dispatch.grid.y,
                                         dispatch.grid.z,
                                         kernel.threads,
                                         1,
                                         1,
                                         kernel.shared_bytes,
                                         stream_,
                                         &parameters,
                                         nullptr);
  });
  return result == kSuccess ? Status() : device_->abandon("cuLaunchKernel", result);
}

Status CudaQueue::call(const gpu::Dispatch& dispatch) const {
  BlasAddresses at{};
  std::memcpy(&at, dispatch.parameters.data(), sizeof at);
  const int status = static_cast<const BlasCall*>(dispatch.call)->run(stream_, at);
  if (status == 0) {
    return {};
  }
  return device_->abandon_after(Error{
      .code = ErrorCode::kernel_failed,
      .text = fmt::format("{}: cublasLtMatmul gave status {} for addresses {:#x}, {:#x}, {:#x}",
                          device_name(),
                          status,
                          at.a,
                          at.b,
                          at.y),
      .device = device_name()});
}

Status CudaQueue::copy(const gpu::Batch& batch) const {
  const DriverApi& api = device_->api();
  for (const gpu::Copy& copy : batch.copies) {
    const CUresult result = device_->checked([&] {
      return api.cuMemcpyAsync(copy.to.piece + static_cast<std::uint64_t>(copy.to.offset_bytes),
                               copy.from.piece + static_cast<std::uint64_t>(copy.from.offset_bytes),
                               static_cast<std::size_t>(copy.size_bytes),
                               stream_);
    });
    if (result != kSuccess) {
      return device_->abandon("cuMemcpyAsync", result);
    }
  }
  return {};
}

Status CudaQueue::run(gpu::Batch& batch) {
  if (batch.hangs) [[unlikely]] {
    return {};
  }
  HEARTH_TRY(const bool runs, wait_for(batch));
  if (!runs) [[unlikely]] {
    return {};
  }
  HEARTH_TRY_STATUS(events_of(batch).is_timed() ? launch_timed(batch) : launch(batch));
  batch.recorded = batch.dispatches.size();
  HEARTH_TRY_STATUS(copy(batch));
  return mark_end(batch);
}

// ---- times ----

void CudaQueue::time(gpu::Batch& batch) {
  events_of(batch).begin();
}

void CudaQueue::read_times(gpu::Batch& batch) {
  clock_.read(events_of(batch));
}

void CudaQueue::forget_times(gpu::Batch& batch) noexcept {
  events_of(batch).forget();
}

}  // namespace hearth::cuda
