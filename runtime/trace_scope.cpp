#include <hearth/runtime/trace_scope.hpp>

#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/chrome_trace.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/runtime.hpp>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {
namespace {

detail::Trace& trace_of(const Device& device) {
  return device.endpoint().tables().trace();
}

[[noreturn]] void throw_at(Error error, SourceLoc loc) {
  error.op = "TraceScope";
  error.location = loc;
  throw_error(std::move(error));
}

// A lost device has its own line in the log; a closed one has done its work.
void log_unfinished(const Device& device, const Exception& error) {
  const ErrorCode code = error.error().code;
  if (code != ErrorCode::device_lost && code != ErrorCode::device_closed) {
    device.log().warn(
        fmt::format("a trace lacks the unfinished work of {}: {}", device.name(), error.what()));
  }
}

// Sends a request to all devices before it waits for the first. The program itself reads failures
// of ops.
void catch_up(const std::vector<Device>& devices, SourceLoc loc) {
  std::vector<std::pair<const Device*, Pending<void>>> asked;
  for (const Device& device : devices) {
    try {
      asked.emplace_back(&device, device.catch_up_later(loc));
    } catch (const Exception& error) {
      log_unfinished(device, error);
    }
  }
  for (auto& [device, done] : asked) {
    try {
      std::move(done).get();
    } catch (const Exception& error) {
      log_unfinished(*device, error);
    }
  }
}

}  // namespace

TraceScope::TraceScope(const Runtime& runtime,
                       std::filesystem::path file,
                       TraceOptions options,
                       SourceLoc loc)
    : devices_(runtime.every_device()), file_(std::move(file)), location_(loc) {
  if (const Status writable = check_writable(file_); !writable.has_value()) {
    throw_at(writable.error(), loc);
  }
  if (const Status started = trace_of(devices_.front()).start(options.max_events);
      !started.has_value()) {
    throw_at(started.error(), loc);
  }
  is_open_ = true;
}

TraceScope::~TraceScope() {
  if (!is_open_) {
    return;
  }
  if (const Status status = stop(); !status.has_value()) {
    devices_.front().log().error(status.error().to_string());
  }
}

Status TraceScope::stop() {
  if (std::exchange(is_open_, false)) {
    catch_up(devices_, location_);
  }
  HEARTH_TRY(const detail::TraceLog log, trace_of(devices_.front()).stop());
  return detail::write_trace(devices_.front(), log, file_);
}

TracePart::TracePart(const Device& device, std::string_view name, SourceLoc loc) {
  detail::Trace& trace = trace_of(device);
  if (!trace.is_on()) {
    return;
  }
  device_ = device;
  event_.name = trace.keep(name);
  event_.track = detail::TraceTrack::parts;
  event_.location = loc;
  event_.begin = detail::current_context().clock().now();
}

TracePart::TracePart(const Runtime& runtime, std::string_view name, SourceLoc loc)
    : TracePart(runtime.device(), name, loc) {}

TracePart::~TracePart() {
  if (device_.is_valid()) {
    event_.end = detail::current_context().clock().now();
    trace_of(device_).add(event_);
  }
}

Status detail::write_trace(const Device& device,
                           const detail::TraceLog& log,
                           const std::filesystem::path& file) {
  RuntimeTables& tables = device.endpoint().tables();
  return write_chrome_trace(log, {.shapes = tables.shapes, .paths = tables.paths}, file);
}

}  // namespace hearth
