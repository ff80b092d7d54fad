#include "readback.hpp"

namespace hearth {

PendingHelper helper_of(DeviceEndpoint& endpoint) noexcept {
  endpoint.retain();
  return PendingHelper{
      .help =
          [](void* object, PendingStateBase& state, Deadline deadline) {
            static_cast<DeviceEndpoint*>(object)->help(state, deadline);
          },
      .object = &endpoint,
      .release = [](void* object) noexcept { static_cast<DeviceEndpoint*>(object)->release(); },
      .whom = endpoint.name(),
      .watchdog = endpoint.tables().watchdog,
      .limit = endpoint.tables().wait_limit,
  };
}

}  // namespace hearth
