// Kernels in GLSL that the program supplies. Threads: owner only.
#pragma once

#include <hearth/backends/kernel.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

[[nodiscard]] Status encode_custom(const KernelCall& call, KernelEncoder& encoder);

}  // namespace hearth::gpu
