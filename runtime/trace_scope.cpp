#include <hearth/runtime/trace_scope.hpp>

#include <utility>

#include <hearth/runtime/base/chrome_trace.hpp>
#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/base/thread_context.hpp>
#include <hearth/runtime/runtime.hpp>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {
namespace {

Trace& trace_of(const Device& device) {
  return device.endpoint().tables().trace();
}

[[noreturn]] void throw_at(Error error, SourceLoc loc) {
  error.op = "TraceScope";
  error.location = loc;
  throw_error(std::move(error));
}

}  // namespace

TraceScope::TraceScope(const Runtime& runtime,
                       std::filesystem::path file,
                       TraceOptions options,
                       SourceLoc loc)
    : device_(runtime.every_device().front()), file_(std::move(file)) {
  if (const Status writable = check_writable(file_); !writable.has_value()) {
    throw_at(writable.error(), loc);
  }
  if (const Status started = trace_of(device_).start(options.most_events); !started.has_value()) {
    throw_at(started.error(), loc);
  }
  is_open_ = true;
}

TraceScope::~TraceScope() {
  if (!is_open_) {
    return;
  }
  if (const Status status = stop(); !status.has_value()) {
    device_.log().error(status.error().to_string());
  }
}

Status TraceScope::stop() {
  is_open_ = false;
  HEARTH_TRY(const TraceLog log, trace_of(device_).stop());
  return detail::write_trace(device_, log, file_);
}

TracePart::TracePart(const Device& device, std::string_view name, SourceLoc loc) {
  Trace& trace = trace_of(device);
  if (!trace.is_on()) {
    return;
  }
  device_ = device;
  event_.name = trace.keep(name);
  event_.track = TraceTrack::parts;
  event_.location = loc;
  event_.begin = current_context().clock().now();
}

TracePart::TracePart(const Runtime& runtime, std::string_view name, SourceLoc loc)
    : TracePart(runtime.device(), name, loc) {}

TracePart::~TracePart() {
  if (device_.is_valid()) {
    event_.end = current_context().clock().now();
    trace_of(device_).add(event_);
  }
}

Status detail::write_trace(const Device& device,
                           const TraceLog& log,
                           const std::filesystem::path& file) {
  RuntimeTables& tables = device.endpoint().tables();
  return write_chrome_trace(log, {.shapes = tables.shapes, .paths = tables.paths}, file);
}

}  // namespace hearth
