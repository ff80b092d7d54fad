#include "vulkan_instance.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <hearth/runtime/base/sync.hpp>

namespace hearth::vulkan {
namespace {

// Describes the missing requirements of a device, as a sentence.
std::string lack_of(const InstanceApi& api, VkPhysicalDevice device, std::uint32_t version) {
  if (version < VK_API_VERSION_1_2) {
    return fmt::format("it offers Vulkan {}.{}, and 1.2 is needed",
                       VK_API_VERSION_MAJOR(version),
                       VK_API_VERSION_MINOR(version));
  }
  VkPhysicalDeviceVulkan12Features twelve{};
  twelve.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  VkPhysicalDeviceVulkan11Features eleven{};
  eleven.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  eleven.pNext = &twelve;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &eleven;
  api.vkGetPhysicalDeviceFeatures2(device, &features);
  const std::array needed = {
      std::pair{twelve.bufferDeviceAddress, "bufferDeviceAddress"},
      std::pair{twelve.timelineSemaphore, "timelineSemaphore"},
      std::pair{twelve.scalarBlockLayout, "scalarBlockLayout"},
      std::pair{twelve.storageBuffer8BitAccess, "storageBuffer8BitAccess"},
      std::pair{twelve.shaderInt8, "shaderInt8"},
      std::pair{eleven.storageBuffer16BitAccess, "storageBuffer16BitAccess"},
      std::pair{features.features.shaderInt16, "shaderInt16"},
      std::pair{features.features.shaderInt64, "shaderInt64"},
  };
  VkPhysicalDeviceVulkan11Properties subgroups{};
  subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &subgroups;
  api.vkGetPhysicalDeviceProperties2(device, &properties);
  constexpr VkSubgroupFeatureFlags kSubgroups =
      VK_SUBGROUP_FEATURE_BASIC_BIT | VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
      VK_SUBGROUP_FEATURE_BALLOT_BIT | VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  std::string missing;
  if ((subgroups.subgroupSupportedOperations & kSubgroups) != kSubgroups) {
    missing = "arithmetic, ballots and shuffles of subgroups";
  }
  for (const auto& [has, name] : needed) {
    if (has == VK_FALSE) {
      missing += missing.empty() ? name : fmt::format(", {}", name);
    }
  }
  return missing.empty() ? missing : fmt::format("its driver lacks {}", missing);
}

PhysicalDevice described_device(const InstanceApi& api, VkPhysicalDevice handle) {
  VkPhysicalDeviceVulkan12Properties twelve{};
  twelve.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES;
  VkPhysicalDeviceIDProperties ids{};
  ids.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
  ids.pNext = &twelve;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &ids;
  api.vkGetPhysicalDeviceProperties2(handle, &properties);
  PhysicalDevice device{.handle = handle,
                        .name = std::string(properties.properties.deviceName),
                        .type = properties.properties.deviceType,
                        .driver = fmt::format("{} {}", twelve.driverName, twelve.driverInfo),
                        .uuid = {},
                        .api_version = properties.properties.apiVersion,
                        .lack = {}};
  for (const std::uint8_t byte : ids.deviceUUID) {
    device.uuid += fmt::format("{:02x}", byte);
  }
  device.lack = lack_of(api, handle, device.api_version);
  return device;
}

int rank_of(VkPhysicalDeviceType type) noexcept {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 0;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 1;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_OTHER:
      return 3;
    default:
      return 4;
  }
}

}  // namespace

// A process can open NVIDIA's driver some thirty times. Each open costs scarce thread-local
// storage, and the loader closes the driver with the last instance. So the first instance is never
// destroyed; at the end of a process drivers may be unloaded before this code.
Result<std::shared_ptr<const VulkanInstance>> VulkanInstance::open() {
  struct Kept {
    hearth::detail::Mutex mutex;
    std::shared_ptr<const VulkanInstance> instance HEARTH_GUARDED_BY(mutex);
  };
  static Kept& kept = *std::make_unique<Kept>().release();
  const hearth::detail::MutexLock lock(kept.mutex);
  if (kept.instance == nullptr) {
    HEARTH_TRY(kept.instance, make());
  }
  return kept.instance;
}

Result<std::shared_ptr<const VulkanInstance>> VulkanInstance::make() {
  HEARTH_TRY(std::shared_ptr<const VulkanLibrary> library, VulkanLibrary::open());
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "hearth";
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  VkInstance handle = VK_NULL_HANDLE;
  const VkResult result = library->vkCreateInstance(&info, nullptr, &handle);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    return Error{.code = ErrorCode::not_found,
                 .text =
                     "there is a Vulkan loader, but no driver on this machine that it can use; "
                     "a GPU's driver brings one, and Debian's mesa-vulkan-drivers one in "
                     "software"};
  }
  if (result != VK_SUCCESS) {
    Error error = failed("vulkan", "vkCreateInstance", result);
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY) {
      error.code = ErrorCode::not_found;
      error.text +=
          "; the loader also reports this for a driver's manifest that it cannot read "
          "(VK_DRIVER_FILES; VK_LOADER_DEBUG=all names it)";
    }
    return error;
  }
  Result<InstanceApi> api = load_instance(*library, handle);
  if (!api.has_value()) {
    return api.status();
  }
  auto instance = std::make_shared<VulkanInstance>(std::move(library), handle, api.value());
  HEARTH_TRY_STATUS(instance->find_devices());
  return std::shared_ptr<const VulkanInstance>(std::move(instance));
}

VulkanInstance::VulkanInstance(std::shared_ptr<const VulkanLibrary> library,
                               VkInstance handle,
                               InstanceApi api) noexcept
    : library_(std::move(library)), handle_(handle), api_(api) {}

VulkanInstance::~VulkanInstance() {
  api_.vkDestroyInstance(handle_, nullptr);
}

// The loader may list one card several times, by several drivers or layers; the first entry counts.
Status VulkanInstance::find_devices() {
  std::uint32_t count = 0;
  VkResult result = api_.vkEnumeratePhysicalDevices(handle_, &count, nullptr);
  std::vector<VkPhysicalDevice> handles(count);
  if (result == VK_SUCCESS) {
    result = api_.vkEnumeratePhysicalDevices(handle_, &count, handles.data());
  }
  if (result != VK_SUCCESS && result != VK_INCOMPLETE) {
    return failed("vulkan", "vkEnumeratePhysicalDevices", result);
  }
  handles.resize(count);
  for (const VkPhysicalDevice each : handles) {
    PhysicalDevice device = described_device(api_, each);
    const auto is_same = [&](const PhysicalDevice& other) { return other.uuid == device.uuid; };
    if (std::ranges::none_of(devices_, is_same)) {
      devices_.push_back(std::move(device));
    }
  }
  std::ranges::stable_sort(devices_, {}, [](const PhysicalDevice& d) { return rank_of(d.type); });
  return {};
}

}  // namespace hearth::vulkan
