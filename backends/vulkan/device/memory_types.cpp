#include "memory_types.hpp"

namespace hearth::vulkan {
namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kHost =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
// Excludes protected and lazily allocated memory, which serves images alone. AMD's device-coherent
// memory bypasses the caches, is many times slower, and needs an enabled feature.
constexpr VkMemoryPropertyFlags kNever =
    VK_MEMORY_PROPERTY_PROTECTED_BIT | VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT |
    VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;

}  // namespace

// Vulkan guarantees coherent host memory. Of two equal types drivers list the faster first.
std::optional<MemoryTypes> pick_memory_types(const VkPhysicalDeviceMemoryProperties& all,
                                             std::uint32_t usable,
                                             bool may_be_unified) {
  const auto find = [&](VkMemoryPropertyFlags has,
                        VkMemoryPropertyFlags lacks) -> std::optional<std::uint32_t> {
    for (std::uint32_t i = 0; i < all.memoryTypeCount; ++i) {
      const VkMemoryPropertyFlags flags = all.memoryTypes[i].propertyFlags;
      if ((usable >> i & 1U) != 0 && (flags & has) == has && (flags & (lacks | kNever)) == 0) {
        return i;
      }
    }
    return std::nullopt;
  };
  const auto unified = may_be_unified ? find(kLocal | kCached, 0) : std::nullopt;
  const auto local = unified ? unified : find(kLocal, 0);
  const auto host = find(kHost, kLocal);
  const auto any_host = host ? host : find(kHost, 0);
  if (!local || !any_host) {
    return std::nullopt;
  }
  MemoryTypes types{
      .device = *local,
      .shared = find(kLocal | kHost, 0).value_or(*any_host),
      .host_write = *any_host,
      .host_read = find(kCached, kLocal).value_or(find(kCached, 0).value_or(*any_host)),
      .is_unified = unified.has_value()};
  for (std::uint32_t i = 0; i < all.memoryTypeCount; ++i) {
    if ((all.memoryTypes[i].propertyFlags & kHost) == kHost) {
      types.visible |= 1U << i;
    }
  }
  return types;
}

}  // namespace hearth::vulkan
