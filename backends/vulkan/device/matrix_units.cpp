#include "matrix_units.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "cooperative_matrix.hpp"

namespace hearth::vulkan {
namespace {

MatrixUnits find_khr_units(const VulkanInstance& instance,
                           VkPhysicalDevice device,
                           bool knows_bfloat16) {
  MatrixUnits units;
  Bfloat16Features bfloat16;
  CooperativeMatrixFeatures matrices;
  matrices.next = knows_bfloat16 ? &bfloat16 : nullptr;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &matrices;
  instance.api().vkGetPhysicalDeviceFeatures2(device, &features);
  using List = VkResult(VKAPI_PTR*)(VkPhysicalDevice, std::uint32_t*, CooperativeMatrixProperties*);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): Vulkan hands functions out so
  const auto list = reinterpret_cast<List>(
      instance.function("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  std::uint32_t count = 0;
  if (matrices.cooperative_matrix == VK_FALSE || list == nullptr ||
      list(device, &count, nullptr) != VK_SUCCESS) {
    return units;
  }
  std::vector<CooperativeMatrixProperties> all(count);
  if (list(device, &count, all.data()) != VK_SUCCESS) {
    return units;
  }
  const auto lists = [&all](std::uint32_t depth, std::int32_t factors, std::int32_t sums) {
    return std::ranges::any_of(all, [&](const CooperativeMatrixProperties& each) {
      return each.m_size == 16 && each.n_size == 16 && each.k_size == depth &&
             each.a_type == factors && each.b_type == factors && each.c_type == sums &&
             each.result_type == sums && each.saturating_accumulation == VK_FALSE &&
             each.scope == kScopeSubgroup;
    });
  };
  const auto has = [&lists](std::int32_t factors) { return lists(16, factors, kComponentFloat32); };
  units.by_khr = true;
  units.has_f16 = has(kComponentFloat16);
  units.has_f16_sums = lists(16, kComponentFloat16, kComponentFloat16);
  units.has_i8 = lists(32, kComponentSint8, kComponentSint32);
  units.has_bf16 = bfloat16.bfloat16_type != VK_FALSE && bfloat16.cooperative_matrix != VK_FALSE &&
                   has(kComponentBfloat16);
  return units;
}

// NV's extension, of older drivers: f16 alone.
MatrixUnits find_nv_units(const VulkanInstance& instance, VkPhysicalDevice device) {
  MatrixUnits units;
  VkPhysicalDeviceCooperativeMatrixFeaturesNV matrices{};
  matrices.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_NV;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &matrices;
  instance.api().vkGetPhysicalDeviceFeatures2(device, &features);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): Vulkan hands functions out so
  const auto list = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesNV>(
      instance.function("vkGetPhysicalDeviceCooperativeMatrixPropertiesNV"));
  std::uint32_t count = 0;
  if (matrices.cooperativeMatrix == VK_FALSE || list == nullptr ||
      list(device, &count, nullptr) != VK_SUCCESS) {
    return units;
  }
  VkCooperativeMatrixPropertiesNV none{};
  none.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_NV;
  std::vector<VkCooperativeMatrixPropertiesNV> all(count, none);
  if (list(device, &count, all.data()) != VK_SUCCESS) {
    return units;
  }
  const auto lists = [&all](VkComponentTypeNV sums) {
    return std::ranges::any_of(all, [&](const VkCooperativeMatrixPropertiesNV& each) {
      return each.MSize == 16 && each.NSize == 16 && each.KSize == 16 &&
             each.AType == VK_COMPONENT_TYPE_FLOAT16_NV &&
             each.BType == VK_COMPONENT_TYPE_FLOAT16_NV && each.CType == sums &&
             each.DType == sums && each.scope == VK_SCOPE_SUBGROUP_NV;
    });
  };
  units.has_f16 = lists(VK_COMPONENT_TYPE_FLOAT32_NV);
  units.has_f16_sums = lists(VK_COMPONENT_TYPE_FLOAT16_NV);
  return units;
}

}  // namespace

// The kernels need 16 x 16 x 16 with sums in f32, or in f16 where the program allows it. For i8
// they need 16 x 16 x 32 with sums in i32. All have subgroup scope.
MatrixUnits find_matrix_units(const VulkanInstance& instance,
                              VkPhysicalDevice device,
                              const MatrixExtensions& extensions) {
  if (extensions.has_khr) {
    return find_khr_units(instance, device, extensions.has_bfloat16);
  }
  return extensions.has_nv ? find_nv_units(instance, device) : MatrixUnits{};
}

std::string describe_matrix_units(const gpu::DeviceLimits& limits) {
  if (!limits.has_cooperative_matrix || limits.subgroup_size != 32) {
    return "no matrix units";
  }
  return fmt::format("matrix units for f16{}{}{}",
                     limits.has_cooperative_bf16 ? ", bf16" : "",
                     limits.has_cooperative_i8 ? ", i8" : "",
                     limits.sums_f16 ? ", sums of f16 in f16" : "");
}

}  // namespace hearth::vulkan
