// The sentence that reports a driver's description of a lost device.
#include <algorithm>
#include <array>
#include <string_view>

#include <gtest/gtest.h>

#include "backends/vulkan/device/device_fault.hpp"

namespace hearth::vulkan {
namespace {

template <class Text>
void write(Text& to, std::string_view text) {
  std::ranges::copy(text, std::begin(to));
}

TEST(DeviceFault, SaysWhatWasTouchedAndWhatTheVendorAdds) {
  VkDeviceFaultInfoEXT info{};
  write(info.description, "page fault");
  std::array<VkDeviceFaultAddressInfoEXT, 3> addresses{};
  addresses[0].addressType = VK_DEVICE_FAULT_ADDRESS_TYPE_NONE_EXT;
  addresses[1].addressType = VK_DEVICE_FAULT_ADDRESS_TYPE_READ_INVALID_EXT;
  addresses[1].reportedAddress = 0x12345;
  addresses[1].addressPrecision = 0x1000;
  addresses[2].addressType = VK_DEVICE_FAULT_ADDRESS_TYPE_WRITE_INVALID_EXT;
  addresses[2].reportedAddress = 0x10;
  addresses[2].addressPrecision = 1;
  std::array<VkDeviceFaultVendorInfoEXT, 1> vendor{};
  write(vendor[0].description, "warp 3");
  vendor[0].vendorFaultCode = 31;
  vendor[0].vendorFaultData = 255;
  EXPECT_EQ(describe_fault(info, addresses, vendor),
            "page fault; a read of 0x12000 to 0x12fff; a write to 0x10; warp 3 (code 0x1f, data "
            "0xff)");
}

TEST(DeviceFault, ADriverThatSaysNothingLeavesNothing) {
  EXPECT_EQ(describe_fault({}, {}, {}), "");
}

// A driver may fill the text to its end, without a terminating zero.
TEST(DeviceFault, ATextMayFillItsPlace) {
  VkDeviceFaultInfoEXT info{};
  std::ranges::fill(info.description, 'x');
  EXPECT_EQ(describe_fault(info, {}, {}), std::string(VK_MAX_DESCRIPTION_SIZE, 'x'));
}

}  // namespace
}  // namespace hearth::vulkan
