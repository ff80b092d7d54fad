#include <hearth/runtime/device.hpp>

#include <memory>
#include <utility>

#include <fmt/format.h>

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

Log& Device::log() const {
  return endpoint().tables().log;
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

Pending<void> Device::sync_later(SourceLoc loc) const {
  StreamState& stream = current_stream(endpoint());
  Promise<void> promise(
      PendingOptions{.subject = "sync", .helper = helper_of(endpoint()), .location = loc});
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
  record.source = stream.source(loc);
  submit_ticket(stream, record, std::move(ticket));
  return pending;
}

void Device::sync(std::chrono::nanoseconds limit, SourceLoc loc) const {
  sync_later(loc).get(Deadline::in(limit));
}

bool Device::is_lost() const {
  return endpoint().is_lost();
}
std::uint64_t Device::generation() const {
  return endpoint().generation();
}

void Device::restart(std::chrono::nanoseconds limit) const {
  DeviceEndpoint& endpoint = this->endpoint();
  if (endpoint.is_closed()) {
    throw_error(endpoint.closed_error());
  }
  const auto given_up = std::make_shared<const Error>(
      Error{.code = ErrorCode::device_lost,
            .text = fmt::format("device {} was restarted", endpoint.name()),
            .device = endpoint.name()});
  Promise<bool> promise(PendingOptions{.subject = "a restart", .helper = helper_of(endpoint)});
  Pending<bool> pending = promise.pending();
  endpoint.post([given_up, promise = std::move(promise), backend = endpoint.reopen().value()](
                    DeviceActor& actor) mutable {
    actor.lose(given_up);
    actor.when_idle(
        [promise = std::move(promise), backend = std::move(backend)](DeviceActor& idle) mutable {
          fulfil_with(promise, [&] {
            idle.restart(std::move(backend));
            return true;
          });
        });
  });
  std::move(pending).get(Deadline::in(limit));
  log().debug([&] {
    return fmt::format(
        "device {} restarted: generation {}", endpoint.name(), endpoint.generation());
  });
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

MemoryReport Device::memory_report() const {
  return ask_actor<MemoryReport>(endpoint(),
                                 [](DeviceActor& actor) { return actor.memory_report(); });
}

std::int64_t Device::trim() const {
  return ask_actor<std::int64_t>(endpoint(), [](DeviceActor& actor) { return actor.trim(); });
}

std::vector<LiveTensor> Device::largest_tensors(int count) const {
  DeviceEndpoint& asked = endpoint();
  return ask_actor<std::vector<LiveTensor>>(asked, [&asked, count](DeviceActor& actor) {
    return actor.handles().largest_tensors(count, asked.tables());
  });
}

void Device::start_memory_trace() const {
  static_cast<void>(ask_actor<bool>(endpoint(), [](DeviceActor& actor) {
    actor.handles().start_trace();
    return true;
  }));
}

MemoryTrace Device::take_memory_trace() const {
  DeviceEndpoint& asked = endpoint();
  return ask_actor<MemoryTrace>(
      asked, [&asked](DeviceActor& actor) { return actor.handles().take_trace(asked.tables()); });
}

DeviceStatistics Device::statistics() const {
  return ask_actor<DeviceStatistics>(endpoint(),
                                     [](DeviceActor& actor) { return actor.statistics(); });
}

}  // namespace hearth
