// Which memory type serves which buffer, on cards as their drivers list them.
#include <initializer_list>

#include <gtest/gtest.h>

#include "backends/vulkan/device/memory_types.hpp"

namespace hearth::vulkan {
namespace {

constexpr VkMemoryPropertyFlags kLocal = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags kHost =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags kCached = kHost | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr VkMemoryPropertyFlags kAmd =
    VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
constexpr std::uint32_t kAll = ~0U;

VkPhysicalDeviceMemoryProperties listed(std::initializer_list<VkMemoryPropertyFlags> types) {
  VkPhysicalDeviceMemoryProperties all{};
  for (const VkMemoryPropertyFlags flags : types) {
    all.memoryTypes[all.memoryTypeCount++].propertyFlags = flags;
  }
  return all;
}

TEST(MemoryTypes, ACardsBuffersLieInItsOwnMemory) {
  const auto types =
      pick_memory_types(listed({0, kLocal, kHost, kCached, kLocal | kHost}), kAll, false);
  ASSERT_TRUE(types);
  EXPECT_EQ(types->device, 1U);
  EXPECT_EQ(types->shared, 4U);
  EXPECT_EQ(types->host_write, 2U);
  EXPECT_EQ(types->host_read, 3U);
  EXPECT_EQ(types->visible, 0b11100U);
  EXPECT_FALSE(types->is_unified);
}

TEST(MemoryTypes, OneMemoryIsUnifiedWhereTheHostsViewIsCached) {
  const auto all = listed({kLocal | kHost, kLocal | kCached});
  const auto types = pick_memory_types(all, kAll, true);
  ASSERT_TRUE(types);
  EXPECT_TRUE(types->is_unified);
  EXPECT_EQ(types->device, 1U);
  EXPECT_FALSE(pick_memory_types(all, kAll, false)->is_unified) << "a card that shows its memory";
  EXPECT_FALSE(pick_memory_types(listed({kLocal | kHost}), kAll, true)->is_unified);
}

TEST(MemoryTypes, ATypeThatBuffersCannotHaveIsLeftOut) {
  const auto types = pick_memory_types(listed({kLocal, kLocal, kHost, kHost}), 0b1010U, false);
  ASSERT_TRUE(types);
  EXPECT_EQ(types->device, 1U);
  EXPECT_EQ(types->host_write, 3U);
  EXPECT_FALSE(pick_memory_types(listed({kLocal, kHost}), 0b01U, false)) << "none for the host";
}

TEST(MemoryTypes, MemoryForOtherThingsIsNeverTaken) {
  for (const VkMemoryPropertyFlags never :
       {VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_PROTECTED_BIT},
        VkMemoryPropertyFlags{VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT},
        kAmd}) {
    SCOPED_TRACE(never);
    const auto types = pick_memory_types(
        listed({kLocal | never, kCached | never, kLocal | kCached | never, kLocal, kHost}),
        kAll,
        true);
    ASSERT_TRUE(types);
    EXPECT_EQ(types->device, 3U);
    EXPECT_EQ(types->shared, 4U);
    EXPECT_EQ(types->host_write, 4U);
    EXPECT_EQ(types->host_read, 4U);
    EXPECT_FALSE(pick_memory_types(listed({kLocal | never, kHost}), kAll, false));
  }
}

// The memory ladder then runs: other devices may release memory.
TEST(VulkanCalls, TooManyPiecesOfMemoryIsAShortage) {
  const auto code = [](VkResult result, std::string_view call) {
    return failed("vulkan:0", call, result).code;
  };
  EXPECT_EQ(code(VK_ERROR_TOO_MANY_OBJECTS, "vkAllocateMemory"), ErrorCode::out_of_memory);
  EXPECT_EQ(code(VK_ERROR_TOO_MANY_OBJECTS, "vkCreateDevice"), ErrorCode::kernel_failed);
  EXPECT_EQ(code(VK_ERROR_OUT_OF_DEVICE_MEMORY, "vkAllocateMemory"), ErrorCode::out_of_memory);
  EXPECT_EQ(code(VK_ERROR_DEVICE_LOST, "vkQueueSubmit"), ErrorCode::device_lost);
}

}  // namespace
}  // namespace hearth::vulkan
