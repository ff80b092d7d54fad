// Running sums, products and extremes along an axis. Private to backends/gpu. Threads: owner only.
#pragma once

#include "backends/gpu/encoder/kernel_encoder.hpp"

namespace hearth::gpu {

[[nodiscard]] Support supports_scan(const KernelCall& call, const DeviceLimits& limits);
[[nodiscard]] Status encode_scan(const KernelCall& call, KernelEncoder& encoder);
/// True for input 0 of scans: a whole line is read before any of it is written.
[[nodiscard]] bool scan_may_alias(OpKind kind, int index) noexcept;

}  // namespace hearth::gpu
