// Ops of kind `expression` whose kernel takes rows whole: folds, softmax and its kin, and what goes
// with them. Threads: owner only.
#pragma once

#include <hearth/backends/kernel.hpp>

#include "backends/vulkan/kernel_encoder.hpp"

namespace hearth::vulkan {

[[nodiscard]] Status encode_rows(const KernelCall& call, KernelEncoder& encoder);

}  // namespace hearth::vulkan
