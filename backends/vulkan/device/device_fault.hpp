// Describes a device loss from the driver's fault report (VK_EXT_device_fault), for an error's
// text. Pure. Threads: any.
#pragma once

#include <span>
#include <string>

#include "vulkan_api.hpp"

namespace hearth::vulkan {

/// "a kernel wrote to 0x... that is no memory (...)": the driver's description, the faulting
/// addresses and the vendor's message. Empty where the report is.
[[nodiscard]] std::string describe_fault(const VkDeviceFaultInfoEXT& info,
                                         std::span<const VkDeviceFaultAddressInfoEXT> addresses,
                                         std::span<const VkDeviceFaultVendorInfoEXT> vendor);

}  // namespace hearth::vulkan
