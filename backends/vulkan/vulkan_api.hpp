// Vulkan's functions, found at run time: the loader library is opened with dlopen, so that a
// program runs where there is none and says so. Three tables, of the loader, an instance and a
// device. Immutable once made. Threads: any.
#pragma once

#define VK_NO_PROTOTYPES 1
#include <vulkan/vulkan_core.h>

#include <memory>
#include <string>
#include <string_view>

#include <hearth/runtime/base/result.hpp>

namespace hearth::vulkan {

#define HEARTH_VULKAN_LOADER_FUNCTIONS(X) \
  X(vkCreateInstance)                     \
  X(vkEnumerateInstanceVersion)           \
  X(vkEnumerateInstanceLayerProperties)   \
  X(vkEnumerateInstanceExtensionProperties)

#define HEARTH_VULKAN_INSTANCE_FUNCTIONS(X)   \
  X(vkDestroyInstance)                        \
  X(vkEnumeratePhysicalDevices)               \
  X(vkGetPhysicalDeviceProperties2)           \
  X(vkGetPhysicalDeviceFeatures2)             \
  X(vkGetPhysicalDeviceMemoryProperties2)     \
  X(vkGetPhysicalDeviceQueueFamilyProperties) \
  X(vkEnumerateDeviceExtensionProperties)     \
  X(vkCreateDevice)                           \
  X(vkGetDeviceProcAddr)

#define HEARTH_VULKAN_DEVICE_FUNCTIONS(X) \
  X(vkDestroyDevice)                      \
  X(vkGetDeviceQueue)                     \
  X(vkDeviceWaitIdle)                     \
  X(vkAllocateMemory)                     \
  X(vkFreeMemory)                         \
  X(vkMapMemory)                          \
  X(vkCreateBuffer)                       \
  X(vkDestroyBuffer)                      \
  X(vkBindBufferMemory)                   \
  X(vkGetBufferMemoryRequirements)        \
  X(vkGetBufferDeviceAddress)             \
  X(vkCreateCommandPool)                  \
  X(vkDestroyCommandPool)                 \
  X(vkResetCommandPool)                   \
  X(vkAllocateCommandBuffers)             \
  X(vkBeginCommandBuffer)                 \
  X(vkEndCommandBuffer)                   \
  X(vkCmdBindPipeline)                    \
  X(vkCmdPushConstants)                   \
  X(vkCmdDispatch)                        \
  X(vkCmdPipelineBarrier)                 \
  X(vkCmdCopyBuffer)                      \
  X(vkQueueSubmit)                        \
  X(vkCreateSemaphore)                    \
  X(vkDestroySemaphore)                   \
  X(vkGetSemaphoreCounterValue)           \
  X(vkWaitSemaphores)                     \
  X(vkCreateShaderModule)                 \
  X(vkDestroyShaderModule)                \
  X(vkCreatePipelineLayout)               \
  X(vkDestroyPipelineLayout)              \
  X(vkCreateComputePipelines)             \
  X(vkDestroyPipeline)                    \
  X(vkCreatePipelineCache)                \
  X(vkDestroyPipelineCache)               \
  X(vkGetPipelineCacheData)               \
  X(vkCreateQueryPool)                    \
  X(vkDestroyQueryPool)                   \
  X(vkCmdResetQueryPool)                  \
  X(vkCmdWriteTimestamp)                  \
  X(vkGetQueryPoolResults)

#define HEARTH_VULKAN_MEMBER(function) PFN_##function function = nullptr;

/// The loader library, open as long as this lives.
class VulkanLibrary final {
 public:
  /// Errors: not_found, saying which file is missing and what brings it.
  [[nodiscard]] static Result<std::shared_ptr<const VulkanLibrary>> open();

  explicit VulkanLibrary(void* library) noexcept : library_(library) {}
  VulkanLibrary(const VulkanLibrary&) = delete;
  VulkanLibrary& operator=(const VulkanLibrary&) = delete;
  ~VulkanLibrary();

  PFN_vkGetInstanceProcAddr vkGetInstanceProcAddr = nullptr;  // NOLINT: Vulkan's own names
  HEARTH_VULKAN_LOADER_FUNCTIONS(HEARTH_VULKAN_MEMBER)

 private:
  void* library_;
};

struct InstanceApi {
  HEARTH_VULKAN_INSTANCE_FUNCTIONS(HEARTH_VULKAN_MEMBER)
};
struct DeviceApi {
  HEARTH_VULKAN_DEVICE_FUNCTIONS(HEARTH_VULKAN_MEMBER)
};
#undef HEARTH_VULKAN_MEMBER

/// Errors: not_found, naming the function that a driver lacks.
[[nodiscard]] Result<InstanceApi> load_instance(const VulkanLibrary& library, VkInstance instance);
[[nodiscard]] Result<DeviceApi> load_device(const InstanceApi& instance, VkDevice device);

/// "VK_ERROR_DEVICE_LOST", or the number.
[[nodiscard]] std::string_view name(VkResult result) noexcept;

/// The failure of a call as an error: device_lost, out_of_memory, else kernel_failed.
[[nodiscard]] Error failed(std::string_view device, std::string_view call, VkResult result);

}  // namespace hearth::vulkan
