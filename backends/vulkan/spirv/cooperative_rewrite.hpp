// Rewrites cooperative matrices of the NVIDIA extension for the portable one. The packaged glslang
// writes SPV_NV_cooperative_matrix only; the result uses SPV_KHR_cooperative_matrix, and its
// factors may be bfloat16. Matrices of signed integers are multiplied as signed. Pure functions of
// the words. Threads: any. Cost: one pass.
//
// Requirement: the module's three kinds of matrices are three types. Their sizes M x K, K x N and M
// x N are therefore separate specialisation constants. The rewrite infers the use of each type from
// the multiplications.
#pragma once

#include <hearth/runtime/base/result.hpp>

#include "spirv_compiler.hpp"

namespace hearth::vulkan {

/// Component type of the factors; accumulators keep their own.
enum class CooperativeFactor : std::uint8_t { f16, bf16 };

[[nodiscard]] bool has_cooperative_matrices(const SpirvModule& module) noexcept;

/// Errors: internal, if the module is damaged, or if a matrix type has no use or two uses.
[[nodiscard]] Result<SpirvModule> rewrite_cooperative(const SpirvModule& module,
                                                      CooperativeFactor factor);

}  // namespace hearth::vulkan
