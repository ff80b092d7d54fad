// Finds the products that a physical device's matrix units support. Pure functions. Threads: any.
#pragma once

#include <string>

#include "backends/gpu/encoder/device_limits.hpp"
#include "vulkan_instance.hpp"

namespace hearth::vulkan {

/// Matrix extensions that the device has and the program uses.
struct MatrixExtensions {
  bool has_khr = false;
  bool has_bfloat16 = false;
  bool has_nv = false;
};

/// Supported factors, with sums in f32, those of i8 in i32.
struct MatrixUnits {
  bool by_khr = false;
  bool has_f16 = false;
  bool has_f16_sums = false;  ///< f16 sums of f16 factors, too.
  bool has_bf16 = false;
  bool has_i8 = false;
};

/// Queries KHR, else NV, which supports f16 alone.
[[nodiscard]] MatrixUnits find_matrix_units(const VulkanInstance& instance,
                                            VkPhysicalDevice device,
                                            const MatrixExtensions& extensions);

/// "matrix units for f16, bf16", or "no matrix units".
[[nodiscard]] std::string describe_matrix_units(const gpu::DeviceLimits& limits);

}  // namespace hearth::vulkan
