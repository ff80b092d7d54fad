#include <hearth/runtime/device.hpp>

#include <utility>

#include "device_actor.hpp"
#include "device_endpoint.hpp"
#include "readback.hpp"
#include "stream_state.hpp"
#include "tickets.hpp"

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

const std::string& Device::name() const {
  return endpoint().name();
}
const std::string& Device::description() const {
  return endpoint().description();
}
const std::vector<int>& Device::cores() const {
  return endpoint().cores();
}

Pending<void> Device::sync_later() const {
  StreamState& stream = current_stream(endpoint());
  Promise<void> promise(PendingOptions{.subject = "sync", .helper = helper_of(endpoint())});
  Pending<void> pending = promise.pending();
  auto ticket = std::make_unique<SyncTicket>();
  ticket->finish = [promise = std::move(promise)](ErrorRef error) mutable {
    if (error) {
      promise.set_error(std::move(error));
    } else {
      promise.set_value();
    }
  };
  OpRecord record;
  record.kind = OpKind::sync;
  submit_ticket(stream, record, std::move(ticket));
  return pending;
}

void Device::sync(std::chrono::nanoseconds limit) const {
  sync_later().get(Deadline::in(limit));
}

MemoryStatistics Device::memory() const {
  return ask_actor<MemoryStatistics>(endpoint(), [](DeviceActor& actor) { return actor.memory(); });
}

void Device::reset_peak_memory() const {
  static_cast<void>(ask_actor<bool>(endpoint(), [](DeviceActor& actor) {
    actor.reset_peak();
    return true;
  }));
}

DeviceStatistics Device::statistics() const {
  return ask_actor<DeviceStatistics>(endpoint(),
                                     [](DeviceActor& actor) { return actor.statistics(); });
}

}  // namespace hearth
