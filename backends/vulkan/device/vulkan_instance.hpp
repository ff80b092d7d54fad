// A Vulkan instance and its physical devices: each card once, even if several drivers list it; real
// GPUs before software. Owned by the devices that were opened from it, through shared ownership.
// Immutable once made, except abandoned_objects(). Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/gpu/launches/left_behind.hpp"
#include "vulkan_api.hpp"

namespace hearth::vulkan {

/// A physical device, and whether this backend can use it.
struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::string name;  ///< "NVIDIA H200", "llvmpipe (LLVM 15.0.6, 256 bits)"
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  std::string driver;  ///< "NVIDIA 580.159.04"
  std::string uuid;    ///< 32 hexadecimal digits.
  std::uint32_t api_version = 0;
  std::string lack;  ///< Reason why the device is unusable; empty if it is usable.

  [[nodiscard]] bool is_cpu() const noexcept { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
};

class VulkanInstance final {
 public:
  /// The instance of this process, which is never destroyed; later calls cost nothing.
  ///
  /// Errors: not_found, without a loader or a driver.
  /// Threads: any; the first call waits for the drivers.
  [[nodiscard]] static Result<std::shared_ptr<const VulkanInstance>> open();

  VulkanInstance(std::shared_ptr<const VulkanLibrary> library,
                 VkInstance handle,
                 InstanceApi api) noexcept;
  VulkanInstance(const VulkanInstance&) = delete;
  VulkanInstance& operator=(const VulkanInstance&) = delete;
  ~VulkanInstance();

  [[nodiscard]] const InstanceApi& api() const noexcept { return api_; }
  /// A function of an extension; null if the instance has none.
  [[nodiscard]] PFN_vkVoidFunction function(const char* name) const noexcept {
    return library_->vkGetInstanceProcAddr(handle_, name);
  }
  [[nodiscard]] const std::vector<PhysicalDevice>& devices() const noexcept { return devices_; }
  [[nodiscard]] gpu::AbandonedObjects& abandoned_objects() const noexcept {
    return abandoned_objects_;
  }

 private:
  [[nodiscard]] static Result<std::shared_ptr<const VulkanInstance>> make();
  [[nodiscard]] Status find_devices();

  std::shared_ptr<const VulkanLibrary> library_;
  VkInstance handle_;
  InstanceApi api_;
  std::vector<PhysicalDevice> devices_;
  mutable gpu::AbandonedObjects abandoned_objects_;
};

}  // namespace hearth::vulkan
