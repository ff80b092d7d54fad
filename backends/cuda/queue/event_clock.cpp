#include "event_clock.hpp"

#include <span>

namespace hearth::cuda {
namespace {

/// Elapsed time between two reached events. Fails if the driver gives none.
Result<std::chrono::nanoseconds> between(const CudaDevice& device, CUevent begin, CUevent end) {
  float milliseconds = 0;
  const CUresult result = device.api().cuEventElapsedTime(&milliseconds, begin, end);
  if (result != kSuccess) {
    return device.failed("cuEventElapsedTime", result);
  }
  return std::chrono::nanoseconds(static_cast<std::int64_t>(double{milliseconds} * 1e6));
}

}  // namespace

BatchEvents::~BatchEvents() {
  for (const CUevent event : events_) {
    if (event != nullptr) {
      device_->api().cuEventDestroy_v2(event);
    }
  }
}

void BatchEvents::begin() noexcept {
  is_timed_ = true;
  timed_.written = 0;
  timed_.runs.clear();
}

Status BatchEvents::next(const gpu::Dispatch& dispatch, CUstream stream) {
  if (!is_timed_) {
    return {};
  }
  if (timed_.runs.empty()) {
    timed_.submitted = gpu::LaunchClock::now();
  }
  return timed_.add(dispatch.timed_as, dispatch.is_behind_barrier)
             ? record(timed_.written - 1, stream)
             : Status();
}

Status BatchEvents::end(CUstream stream) {
  return is_timed_ ? record(timed_.written++, stream) : Status();
}

Status BatchEvents::record(std::size_t index, CUstream stream) {
  constexpr unsigned kWithTiming = 0;
  if (events_.size() <= index) {
    events_.resize(index + 1, nullptr);
  }
  CUevent& event = events_[index];
  if (event == nullptr && device_->api().cuEventCreate(&event, kWithTiming) != kSuccess) {
    event = nullptr;
    is_timed_ = false;
    return {};
  }
  const CUresult result =
      device_->checked([&] { return device_->api().cuEventRecord(event, stream); });
  return result == kSuccess ? Status() : device_->abandon("cuEventRecord", result);
}

EventClock::~EventClock() {
  if (reference_ != nullptr) {
    device_->api().cuEventDestroy_v2(reference_);
  }
}

// The caller learns of a lost device from the queue.
void EventClock::read(BatchEvents& batch) {
  if (!std::exchange(batch.is_timed_, false)) {
    return;
  }
  const std::span<CUevent> events(batch.events_.data(), batch.timed_.written);
  std::chrono::nanoseconds first = {};
  if (reference_ != nullptr) {
    const Result<std::chrono::nanoseconds> since = between(*device_, reference_, events.front());
    if (!since.has_value()) {
      return;
    }
    first = reference_time_ + since.value();
  }
  std::vector<std::chrono::nanoseconds> stamps;
  for (const CUevent event : events) {
    const Result<std::chrono::nanoseconds> since = between(*device_, events.front(), event);
    if (!since.has_value()) {
      return;
    }
    stamps.push_back(first + since.value());
  }
  std::swap(reference_, events.back());
  reference_time_ = stamps.back();
  clock_.add(batch.timed_, stamps);
}

}  // namespace hearth::cuda
