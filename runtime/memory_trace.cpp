#include <hearth/runtime/memory_trace.hpp>

#include <span>
#include <utility>

#include <hearth/runtime/base/file.hpp>
#include <hearth/runtime/runtime.hpp>

#include "runtime/client/device_endpoint.hpp"

namespace hearth {
namespace {

RuntimeTables& tables_of(const Device& device) {
  return device.endpoint().tables();
}

[[noreturn]] void refuse_trace(Error error, SourceLoc loc) {
  error.op = "MemoryTraceScope";
  error.location = loc;
  throw_error(std::move(error));
}

// Discards the events of devices with a running trace.
void drop_events(std::span<const Device> devices) {
  for (const Device& device : devices) {
    try {
      static_cast<void>(device.take_memory_trace());
    } catch (const Exception& error) {
      device.log().debug([&] { return error.shared_error()->to_string(); });
    }
  }
}

}  // namespace

MemoryTraceScope::MemoryTraceScope(const Runtime& runtime,
                                   std::filesystem::path file,
                                   SourceLoc loc)
    : devices_(runtime.every_device()), file_(std::move(file)) {
  if (const Status writable = check_writable(file_); !writable.has_value()) {
    refuse_trace(writable.error(), loc);
  }
  RuntimeTables& tables = tables_of(devices_.front());
  if (tables.has_memory_trace.exchange(true, std::memory_order_acq_rel)) {  // partner: abandon
    refuse_trace({.code = ErrorCode::invalid_argument,
                  .text = "memory trace: the runtime's memory is traced already"},
                 loc);
  }
  tables.trace().add_reader();  // for the layers of ops that use no tensor of a layer
  std::size_t begun = 0;
  try {
    for (; begun < devices_.size(); ++begun) {
      devices_[begun].sync(loc);
      devices_[begun].start_memory_trace();
    }
  } catch (...) {
    drop_events({devices_.data(), begun});
    abandon();
    throw;
  }
  is_open_ = true;
}

void MemoryTraceScope::abandon() noexcept {
  RuntimeTables& tables = tables_of(devices_.front());
  tables.trace().remove_reader();
  tables.has_memory_trace.store(false, std::memory_order_release);  // partner: the constructor
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
  const Status status = [&]() -> Status {
    try {
      return write();
    } catch (const Exception& error) {
      drop_events(devices_);
      return error.shared_error();
    }
  }();
  abandon();
  return status;
}

Status MemoryTraceScope::write() const {
  std::vector<DeviceMemoryTrace> traces;
  for (const Device& device : devices_) {
    device.catch_up_later().get();  // the program itself reads failures of ops
    MemoryTrace events = device.take_memory_trace();
    if (!events.empty()) {
      traces.push_back({.device = device.name(), .events = std::move(events)});
    }
  }
  return write_memory_traces(file_, traces);
}

}  // namespace hearth
