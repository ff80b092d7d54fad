#include "vulkan_api.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

namespace hearth::vulkan {
namespace {

constexpr const char* kLibrary = "libvulkan.so.1";

template <class Function>
Status load(Function& to, PFN_vkVoidFunction found, std::string_view name) {
  if (found == nullptr) {
    return Error{.code = ErrorCode::not_found,
                 .text = fmt::format("the Vulkan driver lacks the function {}", name)};
  }
  to = reinterpret_cast<Function>(found);  // NOLINT: Vulkan hands functions out so
  return {};
}

}  // namespace

Result<std::shared_ptr<const VulkanLibrary>> VulkanLibrary::open() {
  void* const opened = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const why = dlerror();
    return Error{
        .code = ErrorCode::not_found,
        .text = fmt::format("there is no Vulkan loader on this machine ({}); Debian has it "
                            "in the package libvulkan1",
                            why == nullptr ? kLibrary : why)};
  }
  auto library = std::make_shared<VulkanLibrary>(opened);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): so dlsym gives functions
  library->vkGetInstanceProcAddr =
      reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(opened, "vkGetInstanceProcAddr"));
  if (library->vkGetInstanceProcAddr == nullptr) {
    return Error{
        .code = ErrorCode::not_found,
        .text = fmt::format("{} is no Vulkan loader: it has no vkGetInstanceProcAddr", kLibrary)};
  }
#define HEARTH_VULKAN_LOAD(function) \
  HEARTH_TRY_STATUS(                 \
      load(library->function, library->vkGetInstanceProcAddr(nullptr, #function), #function));
  HEARTH_VULKAN_LOADER_FUNCTIONS(HEARTH_VULKAN_LOAD)
#undef HEARTH_VULKAN_LOAD
  return std::shared_ptr<const VulkanLibrary>(std::move(library));
}

// The library stays open: drivers leave threads and exit handlers whose code must stay loaded. A
// later open finds the same library.
VulkanLibrary::~VulkanLibrary() {
  static_cast<void>(library_);
}

Result<InstanceApi> load_instance(const VulkanLibrary& library, VkInstance instance) {
  InstanceApi api;
#define HEARTH_VULKAN_LOAD(function) \
  HEARTH_TRY_STATUS(                 \
      load(api.function, library.vkGetInstanceProcAddr(instance, #function), #function));
  HEARTH_VULKAN_INSTANCE_FUNCTIONS(HEARTH_VULKAN_LOAD)
#undef HEARTH_VULKAN_LOAD
  return api;
}

Result<DeviceApi> load_device(const InstanceApi& instance, VkDevice device) {
  DeviceApi api;
#define HEARTH_VULKAN_LOAD(function) \
  HEARTH_TRY_STATUS(load(api.function, instance.vkGetDeviceProcAddr(device, #function), #function));
  HEARTH_VULKAN_DEVICE_FUNCTIONS(HEARTH_VULKAN_LOAD)
#undef HEARTH_VULKAN_LOAD
#define HEARTH_VULKAN_LOAD(name_) \
  HEARTH_TRY_STATUS(load(api.name_.function, instance.vkGetDeviceProcAddr(device, #name_), #name_));
  HEARTH_VULKAN_LOSS_FUNCTIONS(HEARTH_VULKAN_LOAD)
  HEARTH_VULKAN_BATCH_FUNCTIONS(HEARTH_VULKAN_LOAD)
#undef HEARTH_VULKAN_LOAD
  return api;
}

std::string_view name(VkResult result) noexcept {
  switch (result) {
    case VK_SUCCESS:
      return "VK_SUCCESS";
    case VK_TIMEOUT:
      return "VK_TIMEOUT";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "VK_ERROR_TOO_MANY_OBJECTS";
    default:
      return "another VkResult";
  }
}

// A driver limits the number of memory allocations. Freeing memory helps then, as it does when
// bytes run out, so both are out_of_memory.
Error failed(std::string_view device, std::string_view call, VkResult result) {
  const bool is_memory = result == VK_ERROR_OUT_OF_HOST_MEMORY ||
                         result == VK_ERROR_OUT_OF_DEVICE_MEMORY ||
                         (result == VK_ERROR_TOO_MANY_OBJECTS && call == "vkAllocateMemory");
  return {.code = result == VK_ERROR_DEVICE_LOST ? ErrorCode::device_lost
                  : is_memory                    ? ErrorCode::out_of_memory
                                                 : ErrorCode::kernel_failed,
          .text = fmt::format(
              "{}: {} gave {} ({})", device, call, name(result), static_cast<int>(result)),
          .device = std::string(device)};
}

}  // namespace hearth::vulkan
