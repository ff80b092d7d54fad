// Numbers the physical devices: all that Vulkan lists, or those that HEARTH_VULKAN_DEVICES names,
// in its order. A card may stand there twice, for two devices on it. Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "vulkan_instance.hpp"

namespace hearth::vulkan {

struct PhysicalList {
  std::shared_ptr<const VulkanInstance> instance;
  std::vector<PhysicalDevice> devices;
};

/// Errors: not_found, without a loader or a driver; invalid_argument, if HEARTH_VULKAN_DEVICES
/// names a missing device, or HEARTH_VULKAN_WITHOUT holds no names of extensions.
[[nodiscard]] Result<PhysicalList> list_physical();

/// "vulkan:0 is NVIDIA H200, vulkan:1 is ..."
[[nodiscard]] std::string describe(const PhysicalList& list);

}  // namespace hearth::vulkan
