#include "ask.hpp"

namespace hearth {

detail::PendingHelper helper_of(DeviceEndpoint& endpoint) noexcept {
  endpoint.retain();
  return detail::PendingHelper{
      .help =
          [](void* object, detail::PendingStateBase& state, Deadline deadline) {
            static_cast<DeviceEndpoint*>(object)->help(state, deadline);
          },
      .object = &endpoint,
      .retain = [](void* object) noexcept { static_cast<DeviceEndpoint*>(object)->retain(); },
      .release = [](void* object) noexcept { static_cast<DeviceEndpoint*>(object)->release(); },
      .progress =
          [](void* object) noexcept { return static_cast<DeviceEndpoint*>(object)->progress(); },
      .observe =
          [](void* object) {
            auto& asked = *static_cast<DeviceEndpoint*>(object);
            return asked.doorbell.is_free() ? std::string() : asked.describe_holder();
          },
      .awaited_name = endpoint.name(),
      .watchdog = endpoint.tables().watchdog,
      .limit = endpoint.tables().wait_limit,
  };
}

}  // namespace hearth
