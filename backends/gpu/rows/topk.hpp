// topk: sorts the largest or smallest elements along an axis, up to all of it. Private to
// backends/gpu. Threads: owner only.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

[[nodiscard]] Support supports_topk(const KernelCall& call, const DeviceLimits& limits);
[[nodiscard]] Status encode_topk(const KernelCall& call, KernelEncoder& encoder);

}  // namespace hearth::gpu
