#include <hearth/runtime/memory_trace.hpp>

#include <utility>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/runtime.hpp>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {
namespace {

Trace& traced_by(const Device& device) {
  return device.endpoint().tables().trace();
}

}  // namespace

MemoryTraceScope::MemoryTraceScope(const Runtime& runtime,
                                   std::filesystem::path file,
                                   SourceLoc loc)
    : devices_(runtime.every_device()), file_(std::move(file)) {
  if (const Status writable = check_writable(file_); !writable.has_value()) {
    Error error = writable.error();
    error.op = "MemoryTraceScope";
    error.location = loc;
    throw_error(std::move(error));
  }
  for (const Device& device : devices_) {
    device.sync(loc);
    device.start_memory_trace();
  }
  traced_by(devices_.front()).add_reader();  // layers of ops that have no tensor of one
  is_open_ = true;
}

MemoryTraceScope::~MemoryTraceScope() {
  if (!is_open_) {
    return;
  }
  if (const Status status = stop(); !status.has_value()) {
    devices_.front().log().error(status.error().to_string());
  }
}

Status MemoryTraceScope::stop() {
  if (!std::exchange(is_open_, false)) {
    return Error{.code = ErrorCode::invalid_argument, .text = "memory trace: it has ended already"};
  }
  traced_by(devices_.front()).remove_reader();
  try {
    return write();
  } catch (const Exception& error) {
    return error.shared_error();
  }
}

Status MemoryTraceScope::write() const {
  std::vector<DeviceMemoryTrace> traces;
  for (const Device& device : devices_) {
    device.catch_up_later().get();  // failed ops are for the program to read
    MemoryTrace events = device.take_memory_trace();
    if (!events.empty()) {
      traces.push_back({.device = device.name(), .events = std::move(events)});
    }
  }
  return write_memory_traces(file_, traces);
}

}  // namespace hearth
