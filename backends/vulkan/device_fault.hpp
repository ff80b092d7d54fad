// What a driver says of the loss of its device (VK_EXT_device_fault), as a sentence for an error.
// Pure. Threads: any.
#pragma once

#include <span>
#include <string>

#include "vulkan_api.hpp"

namespace hearth::vulkan {

/// "a kernel wrote to 0x... that is no memory (...)": the driver's description, the addresses that
/// faulted, and the vendor's own words. Empty where it says nothing.
[[nodiscard]] std::string describe_fault(const VkDeviceFaultInfoEXT& info,
                                         std::span<const VkDeviceFaultAddressInfoEXT> addresses,
                                         std::span<const VkDeviceFaultVendorInfoEXT> vendor);

}  // namespace hearth::vulkan
