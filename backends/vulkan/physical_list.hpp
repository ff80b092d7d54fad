// Which physical device is which number: all that Vulkan shows, or those that HEARTH_VULKAN_DEVICES
// names, in its order; a card may stand there twice, for two devices on it. Threads: any.
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

/// Errors: not_found without a loader or a driver; invalid_argument, a setting that names what is
/// not there, or a HEARTH_VULKAN_WITHOUT that has no names of extensions.
[[nodiscard]] Result<PhysicalList> list_physical();

/// "vulkan:0 is NVIDIA H200, vulkan:1 is ..."
[[nodiscard]] std::string describe(const PhysicalList& list);

}  // namespace hearth::vulkan
