// Vulkan names for matrix units beyond the packaged headers (1.3.239). Names, numbers and
// structures of VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16, as the registry has them.
// Values. Threads: any.
//
// Device creation enables what the device has:
// - VK_KHR_cooperative_matrix with `cooperativeMatrix`, and the core features `vulkanMemoryModel`,
//   `shaderFloat16` and `storageBuffer16BitAccess`. Shaders then pass through rewrite_cooperative()
//   (backends/vulkan/spirv) behind compile_glsl().
// - VK_KHR_shader_bfloat16 with `shaderBFloat16Type` and `shaderBFloat16CooperativeMatrix`, for
//   texts of which is_cooperative_bf16() is true. Without it bf16 products must not use matrix
//   units.
// - Products of i8 need the first extension alone, where it lists 16 x 16 x 32 with i8 factors and
//   i32 sums: DeviceLimits::has_cooperative_i8.
// - Else VK_NV_cooperative_matrix, for f16 alone and without the rewriting.
// DeviceLimits::has_cooperative_matrix means f16 factors, f32 sums, 16 x 16 x 16, in a subgroup of
// 32, as vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR or NV lists them.
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth::vulkan {

inline constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";
inline constexpr const char* kBfloat16Extension = "VK_KHR_shader_bfloat16";

/// VkStructureType of the structures below.
inline constexpr std::int32_t kCooperativeMatrixFeaturesType = 1000506000;
inline constexpr std::int32_t kCooperativeMatrixPropertiesType = 1000506001;
inline constexpr std::int32_t kBfloat16FeaturesType = 1000141000;

/// VkPhysicalDeviceCooperativeMatrixFeaturesKHR
struct CooperativeMatrixFeatures {
  std::int32_t type = kCooperativeMatrixFeaturesType;
  void* next = nullptr;
  std::uint32_t cooperative_matrix = 0;
  std::uint32_t robust_buffer_access = 0;
};

/// VkPhysicalDeviceShaderBfloat16FeaturesKHR
struct Bfloat16Features {
  std::int32_t type = kBfloat16FeaturesType;
  void* next = nullptr;
  std::uint32_t bfloat16_type = 0;
  std::uint32_t dot_product = 0;
  std::uint32_t cooperative_matrix = 0;
};

/// The values of VkComponentTypeKHR and VkScopeKHR that the kernels use.
inline constexpr std::int32_t kComponentFloat16 = 0;
inline constexpr std::int32_t kComponentFloat32 = 1;
inline constexpr std::int32_t kComponentSint8 = 3;
inline constexpr std::int32_t kComponentSint32 = 5;
inline constexpr std::int32_t kComponentBfloat16 = 1000141000;
inline constexpr std::int32_t kScopeSubgroup = 3;

/// VkCooperativeMatrixPropertiesKHR, filled by vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR.
struct CooperativeMatrixProperties {
  std::int32_t type = kCooperativeMatrixPropertiesType;
  void* next = nullptr;
  std::uint32_t m_size = 0;
  std::uint32_t n_size = 0;
  std::uint32_t k_size = 0;
  std::int32_t a_type = 0;
  std::int32_t b_type = 0;
  std::int32_t c_type = 0;
  std::int32_t result_type = 0;
  std::uint32_t saturating_accumulation = 0;
  std::int32_t scope = 0;
};

/// True if a shader's matrices have bfloat16 factors. The text declares it; the module does not.
[[nodiscard]] inline bool is_cooperative_bf16(std::string_view text) noexcept {
  return text.find("#define COOPERATIVE_BF16\n") != std::string_view::npos;
}

}  // namespace hearth::vulkan
