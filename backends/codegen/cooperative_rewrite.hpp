// Cooperative matrices of one vendor as those of all: modules with SPV_NV_cooperative_matrix, which
// is what the packaged glslang can write, become modules with SPV_KHR_cooperative_matrix, and their
// factors may be bfloat16. Matrices of signed integers are multiplied as such. Pure functions of
// the words. Threads: any. Cost: one pass.
//
// What a module has to keep to: its three kinds of matrices are three types, so their sizes are
// specialisation constants of their own (M x K, K x N and M x N). What a type is for follows from
// the multiplications then.
#pragma once

#include <hearth/backends/codegen/spirv_compiler.hpp>
#include <hearth/runtime/base/result.hpp>

namespace hearth {

/// The components of the factors; sums keep theirs.
enum class CooperativeFactor : std::uint8_t { f16, bf16 };

[[nodiscard]] bool has_cooperative_matrices(const SpirvModule& module) noexcept;

/// Errors: internal, a module that is damaged, or whose matrices have no use, or two.
[[nodiscard]] Result<SpirvModule> rewrite_cooperative(const SpirvModule& module,
                                                      CooperativeFactor factor);

}  // namespace hearth
