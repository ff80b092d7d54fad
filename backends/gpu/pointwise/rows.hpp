// Ops of kind `expression` whose kernel works on whole rows: folds, softmax and similar functions,
// with pointwise ops around them. Threads: owner only.
#pragma once

#include <hearth/backends/kernel.hpp>

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

[[nodiscard]] Status encode_rows(const KernelCall& call, KernelEncoder& encoder);

}  // namespace hearth::gpu
