// Vulkan's functions, found at run time. dlopen opens the loader library, so a program runs without
// one and reports its absence. Three tables: of the loader, an instance and a device. Immutable
// once made. Threads: any.
#pragma once

#define VK_NO_PROTOTYPES 1
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <vulkan/vulkan_core.h>

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
  X(vkGetBufferMemoryRequirements2)       \
  X(vkGetBufferDeviceAddress)             \
  X(vkCreateCommandPool)                  \
  X(vkDestroyCommandPool)                 \
  X(vkResetCommandPool)                   \
  X(vkAllocateCommandBuffers)             \
  X(vkBeginCommandBuffer)                 \
  X(vkCmdBindPipeline)                    \
  X(vkCmdPushConstants)                   \
  X(vkCmdDispatch)                        \
  X(vkCmdPipelineBarrier)                 \
  X(vkCmdCopyBuffer)                      \
  X(vkCreateSemaphore)                    \
  X(vkDestroySemaphore)                   \
  X(vkCreateShaderModule)                 \
  X(vkDestroyShaderModule)                \
  X(vkCreatePipelineLayout)               \
  X(vkDestroyPipelineLayout)              \
  X(vkCreateComputePipelines)             \
  X(vkDestroyPipeline)                    \
  X(vkCreatePipelineCache)                \
  X(vkDestroyPipelineCache)               \
  X(vkGetPipelineCacheData)               \
  X(vkMergePipelineCaches)                \
  X(vkCreateQueryPool)                    \
  X(vkDestroyQueryPool)                   \
  X(vkCmdResetQueryPool)                  \
  X(vkCmdWriteTimestamp)

/// Functions that may return that the device is lost.
#define HEARTH_VULKAN_LOSS_FUNCTIONS(X) \
  X(vkQueueSubmit)                      \
  X(vkGetSemaphoreCounterValue)         \
  X(vkWaitSemaphores)                   \
  X(vkGetQueryPoolResults)

/// Other functions whose failure fails a whole batch.
#define HEARTH_VULKAN_BATCH_FUNCTIONS(X) X(vkEndCommandBuffer)

#define HEARTH_VULKAN_MEMBER(function) PFN_##function function = nullptr;

/// The loader library. Lifetime: open as long as the object.
class VulkanLibrary final {
 public:
  /// Errors: not_found, with the missing file and the package that brings it.
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

/// For tests: one of the calls that end or submit a batch runs out of host memory. Threads: any.
class CallRefusal final {
 public:
  explicit CallRefusal(std::uint64_t at_call) : at_call_(at_call) {}
  [[nodiscard]] bool refuses() {
    return calls_.fetch_add(1, std::memory_order_acq_rel) + 1 == at_call_;
  }

 private:
  const std::uint64_t at_call_;
  std::atomic<std::uint64_t> calls_{0};
};

/// For tests: from one call on the driver reports a lost device. Threads: any.
class CallFaults final {
 public:
  /// `settle` waits for the device's real work at that moment.
  CallFaults(std::uint64_t lost_at_call, std::function<void()> settle)
      : lost_at_call_(lost_at_call), settle_(std::move(settle)) {}
  [[nodiscard]] bool loses_device() {
    const std::uint64_t call = calls_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (call == lost_at_call_) {
      settle_();
    }
    return call >= lost_at_call_;
  }

 private:
  const std::uint64_t lost_at_call_;
  const std::function<void()> settle_;
  std::atomic<std::uint64_t> calls_{0};
};

/// A function that may report a lost device, or refuse a batch.
template <class Function>
struct LossCall;
template <class... Parameters>
struct LossCall<VkResult (*)(Parameters...)> {
  VkResult (*function)(Parameters...) = nullptr;
  std::shared_ptr<CallFaults> faults = nullptr;    ///< Null: no planned loss.
  std::shared_ptr<CallRefusal> refusal = nullptr;  ///< Null: no planned refusal.

  VkResult operator()(Parameters... parameters) const {
    if (refusal != nullptr && refusal->refuses()) {
      return VK_ERROR_OUT_OF_HOST_MEMORY;
    }
    return faults != nullptr && faults->loses_device() ? VK_ERROR_DEVICE_LOST
                                                       : function(parameters...);
  }
};

struct DeviceApi {
  HEARTH_VULKAN_DEVICE_FUNCTIONS(HEARTH_VULKAN_MEMBER)
#define HEARTH_VULKAN_LOSS_MEMBER(function) LossCall<PFN_##function> function;
  HEARTH_VULKAN_LOSS_FUNCTIONS(HEARTH_VULKAN_LOSS_MEMBER)
  HEARTH_VULKAN_BATCH_FUNCTIONS(HEARTH_VULKAN_LOSS_MEMBER)
#undef HEARTH_VULKAN_LOSS_MEMBER

  /// Applies the faults to later calls.
  void inject(const std::shared_ptr<CallFaults>& faults) {
#define HEARTH_VULKAN_INJECT(function) function.faults = faults;
    HEARTH_VULKAN_LOSS_FUNCTIONS(HEARTH_VULKAN_INJECT)
#undef HEARTH_VULKAN_INJECT
  }
  void inject(const std::shared_ptr<CallRefusal>& refusal) {
    vkEndCommandBuffer.refusal = refusal;
    vkQueueSubmit.refusal = refusal;
  }
};
#undef HEARTH_VULKAN_MEMBER

/// Errors: not_found, with the function that the driver lacks.
[[nodiscard]] Result<InstanceApi> load_instance(const VulkanLibrary& library, VkInstance instance);
[[nodiscard]] Result<DeviceApi> load_device(const InstanceApi& instance, VkDevice device);

/// "VK_ERROR_DEVICE_LOST", or the number.
[[nodiscard]] std::string_view name(VkResult result) noexcept;

/// The error of a failed call: device_lost, out_of_memory, else kernel_failed.
[[nodiscard]] Error failed(std::string_view device, std::string_view call, VkResult result);

}  // namespace hearth::vulkan
