// Which products a physical device's matrix units make. Pure functions. Threads: any.
#pragma once

#include <string>

#include "device_limits.hpp"
#include "vulkan_instance.hpp"

namespace hearth::vulkan {

/// Which extensions of matrix units the device has, and the program is to use.
struct MatrixExtensions {
  bool has_khr = false;
  bool has_bfloat16 = false;
  bool has_nv = false;
};

/// With sums in f32, those of i8 in i32.
struct MatrixUnits {
  bool by_khr = false;
  bool has_f16 = false;
  bool has_f16_sums = false;  ///< Of f16 in f16, too.
  bool has_bf16 = false;
  bool has_i8 = false;
};

/// By KHR, else by NV, which has f16 alone.
[[nodiscard]] MatrixUnits find_matrix_units(const VulkanInstance& instance,
                                            VkPhysicalDevice device,
                                            const MatrixExtensions& extensions);

/// "matrix units for f16, bf16", "no matrix units".
[[nodiscard]] std::string describe_matrix_units(const DeviceLimits& limits);

}  // namespace hearth::vulkan
