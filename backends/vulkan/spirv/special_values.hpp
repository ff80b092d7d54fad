// Declares in a SPIR-V module that infinities, NaNs and the sign of zero count. Without the
// declaration a driver may compute as if they never occurred: NVIDIA's compiler takes
// `y * (finite ? x : infinity)` for `y * x`. Source: SPIR-V 1.6, execution mode
// SignedZeroInfNanPreserve; Vulkan 1.2, shaderSignedZeroInfNanPreserveFloat32. Pure function of the
// words. Threads: any. Cost: one pass.
#pragma once

#include <cstdint>

#include <hearth/runtime/base/result.hpp>

#include "spirv_compiler.hpp"

namespace hearth::vulkan {

/// Returns the module with the declaration for each float width (16, 32, 64 bits) that it uses and
/// that `widths`, a sum of them, contains.
///
/// Errors: internal, if the module is damaged or has no entry point.
[[nodiscard]] Result<SpirvModule> declare_special_values(SpirvModule module, std::uint32_t widths);

}  // namespace hearth::vulkan
