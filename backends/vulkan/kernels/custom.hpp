// Kernels in GLSL that the program supplies. Threads: owner only.
#pragma once

#include <hearth/backends/kernel.hpp>

#include "backends/vulkan/kernel_encoder.hpp"

namespace hearth::vulkan {

[[nodiscard]] Status encode_custom(const KernelCall& call, KernelEncoder& encoder);

}  // namespace hearth::vulkan
