#include <hearth/runtime/device.hpp>

#include <memory>
#include <ostream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "runtime/client/ask.hpp"
#include "runtime/client/device_endpoint.hpp"
#include "runtime/client/stream_state.hpp"
#include "runtime/client/tickets.hpp"

namespace hearth {

Device::Device(IntrusivePtr<DeviceEndpoint> endpoint) noexcept : endpoint_(std::move(endpoint)) {}
Device::Device() noexcept = default;
Device::Device(const Device&) = default;
Device::Device(Device&&) noexcept = default;
Device& Device::operator=(const Device&) = default;
Device& Device::operator=(Device&&) noexcept = default;
Device::~Device() = default;

DeviceEndpoint& Device::endpoint() const {
  if (!endpoint_) {
    throw_error(Error{.code = ErrorCode::invalid_argument, .text = "an empty Device was used"});
  }
  return *endpoint_;
}

detail::Log& Device::log() const {
  return endpoint().tables().log;
}

detail::FailureBook& Device::failures() const {
  return endpoint().tables().failures();
}

const std::string& Device::name() const {
  return endpoint().name();
}

std::ostream& operator<<(std::ostream& out, const Device& device) {
  return out << (device.is_valid() ? std::string_view(device.name()) : "(no device)");
}
const std::string& Device::description() const {
  return endpoint().description();
}
const std::vector<int>& Device::cores() const {
  return endpoint().cores();
}

bool Device::runs_inline() const {
  return endpoint().runs_inline();
}

detail::PendingHelper Device::wait_terms() const {
  detail::PendingHelper terms = helper_of(endpoint());
  terms.help = nullptr;
  terms.observe = nullptr;
  terms.awaited_name = {};
  return terms;
}

Pending<void> Device::sync_later(SourceLoc loc) const {
  return sync_later(true, loc);
}

Pending<void> Device::catch_up_later(SourceLoc loc) const {
  return sync_later(false, loc);
}

Pending<void> Device::sync_later(bool reports_failures, SourceLoc loc) const {
  StreamState& stream = current_stream(endpoint(), loc);
  Promise<void> promise(
      PendingOptions{.subject = "sync", .helper = helper_of(endpoint()), .location = loc});
  Pending<void> pending = promise.pending();
  auto ticket = std::make_unique<SyncTicket>();
  ticket->reports_failures = reports_failures;
  ticket->finish = [promise = std::move(promise)](ErrorRef error) mutable {
    if (error) {
      promise.set_error(std::move(error));
    } else {
      promise.set_value();
    }
  };
  OpRecord record;
  record.kind = OpKind::sync;
  record.source = stream.source(loc);
  submit_ticket(stream, record, std::move(ticket));
  return pending;
}

void Device::sync(SourceLoc loc) const {
  sync_later(loc).get();
}

void Device::sync(std::chrono::nanoseconds limit, SourceLoc loc) const {
  sync_later(loc).get({.deadline = Deadline::in(limit)});
}

std::string DevicePeaks::to_string() const {
  return fmt::format("copies {:.1f} GB/s, adds {:.1f} G numbers/s, {:.1f} additions a byte",
                     copy_bytes_per_second / 1e9,
                     additions_per_second / 1e9,
                     additions_per_byte());
}

std::optional<DevicePeaks> Device::peaks() const {
  return endpoint().peaks();
}

bool Device::is_lost() const {
  return endpoint().is_lost();
}
bool Device::is_closed() const {
  return endpoint().is_closed();
}
std::uint64_t Device::generation() const {
  return endpoint().generation();
}

void Device::restart(SourceLoc loc) const {
  restart_later(loc).get();
  log_restart();
}

void Device::restart(std::chrono::nanoseconds limit, SourceLoc loc) const {
  restart_later(loc).get({.deadline = Deadline::in(limit)});
  log_restart();
}

Pending<void> Device::restart_later(SourceLoc loc) const {
  DeviceEndpoint& endpoint = this->endpoint();
  const ErrorRef restart_error = endpoint.tables().failures().enter(std::make_shared<const Error>(
      Error{.code = ErrorCode::device_lost,
            .text = fmt::format("device {} was restarted", endpoint.name()),
            .device = endpoint.name()}));
  detail::mark_read(*restart_error);  // a restart is no failure to report
  return ask_later<RestartDevice>(endpoint, loc, restart_error);
}

void Device::log_restart() const {
  log().debug(
      [this] { return fmt::format("device {} restarted: generation {}", name(), generation()); });
}

MemoryStatistics Device::memory(SourceLoc loc) const {
  return ask<AskMemory>(endpoint(), std::nullopt, loc);
}

void Device::reset_peak_memory(SourceLoc loc) const {
  ask<ResetPeakMemory>(endpoint(), std::nullopt, loc);
}

MemoryReport Device::memory_report(SourceLoc loc) const {
  return ask<AskMemoryReport>(endpoint(), std::nullopt, loc);
}

std::int64_t Device::trim(SourceLoc loc) const {
  return ask<TrimMemory>(endpoint(), std::nullopt, loc);
}

std::vector<LiveTensor> Device::largest_tensors(int count, SourceLoc loc) const {
  return ask<AskLargestTensors>(endpoint(), std::nullopt, loc, count);
}

void Device::start_memory_trace(SourceLoc loc) const {
  ask<StartMemoryTrace>(endpoint(), std::nullopt, loc);
}

MemoryTrace Device::take_memory_trace(SourceLoc loc) const {
  return ask<TakeMemoryTrace>(endpoint(), std::nullopt, loc);
}

void Device::start_explanation(SourceLoc loc) const {
  ask<StartExplanation>(endpoint(), std::nullopt, loc);
}

Explanation Device::take_explanation(SourceLoc loc) const {
  return ask<TakeExplanation>(endpoint(), std::nullopt, loc);
}

DeviceStatistics Device::statistics(SourceLoc loc) const {
  return ask<AskStatistics>(endpoint(), std::nullopt, loc);
}

}  // namespace hearth
