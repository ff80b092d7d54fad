#include "device_fault.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

namespace hearth::vulkan {
namespace {

std::string_view what_happened(VkDeviceFaultAddressTypeEXT type) noexcept {
  switch (type) {
    case VK_DEVICE_FAULT_ADDRESS_TYPE_READ_INVALID_EXT:
      return "a read of";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_WRITE_INVALID_EXT:
      return "a write to";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_EXECUTE_INVALID_EXT:
      return "an instruction at";
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_UNKNOWN_EXT:
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_INVALID_EXT:
    case VK_DEVICE_FAULT_ADDRESS_TYPE_INSTRUCTION_POINTER_FAULT_EXT:
      return "the instruction at";
    default:
      return "something at";
  }
}

// The text of an array that a driver may have left without a terminator.
template <std::size_t size>
std::string_view text_of(const char (&text)[size]) noexcept {
  return {std::data(text),
          static_cast<std::size_t>(std::find(std::begin(text), std::end(text), '\0') -
                                   std::begin(text))};
}

}  // namespace

std::string describe_fault(const VkDeviceFaultInfoEXT& info,
                           std::span<const VkDeviceFaultAddressInfoEXT> addresses,
                           std::span<const VkDeviceFaultVendorInfoEXT> vendor) {
  std::string out(text_of(info.description));
  const auto add = [&out](const std::string& text) { out += out.empty() ? text : "; " + text; };
  for (const VkDeviceFaultAddressInfoEXT& each : addresses) {
    if (each.addressType == VK_DEVICE_FAULT_ADDRESS_TYPE_NONE_EXT) {
      continue;
    }
    // The driver reports an address up to its precision, a power of two.
    const VkDeviceAddress step = std::max<VkDeviceSize>(1, each.addressPrecision);
    const VkDeviceAddress first = each.reportedAddress & ~(step - 1);
    add(step == 1
            ? fmt::format("{} {:#x}", what_happened(each.addressType), first)
            : fmt::format(
                  "{} {:#x} to {:#x}", what_happened(each.addressType), first, first + step - 1));
  }
  for (const VkDeviceFaultVendorInfoEXT& each : vendor) {
    add(fmt::format("{} (code {:#x}, data {:#x})",
                    text_of(each.description),
                    each.vendorFaultCode,
                    each.vendorFaultData));
  }
  return out;
}

}  // namespace hearth::vulkan
