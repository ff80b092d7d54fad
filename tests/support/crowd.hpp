// More devices than cores, on which a test runs when HEARTH_CPU_DEVICES requests a crowd.
// Threads: any.
#pragma once

#include <hearth/runtime/base/settings.hpp>
#include <hearth/runtime/runtime.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace hearth {

/// These devices and as many further cpu devices as HEARTH_CPU_DEVICES requests. All share the
/// machine's cores, so each gets fewer cores, or one core serves several devices.
inline std::vector<DeviceOptions> crowded(std::vector<DeviceOptions> devices) {
  const std::int64_t wanted = detail::Settings::from_environment()
                                  .integer(detail::Setting::cpu_devices, 1, 64)
                                  .value()
                                  .value_or(0);
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::string name = "cpu:" + std::to_string(i);
    if (std::ranges::find(devices, name, &DeviceOptions::name) == devices.end()) {
      devices.push_back({.name = name, .memory_budget_bytes = std::int64_t{256} << 20});
    }
  }
  return devices;
}

}  // namespace hearth
