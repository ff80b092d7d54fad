// GLSL of matrix units: fragments of 16 x 16, of i8 16 x 32, that lie in MEMORY, an array of uvec4
// in shared memory. Sizes are specialisation constants, for the rewrite in backends/vulkan/spirv.
// Sums have SUM_BITS, 32 or 16, and are stored as f32. Constants. Threads: any.
#pragma once

#include <string_view>

namespace hearth::gpu {

inline constexpr std::string_view kMatrixUnits = R"(
layout(constant_id = 100) const uint kRows = 16u;
layout(constant_id = 101) const uint kColumns = 16u;
layout(constant_id = 102) const uint kDepth = 16u;
#define FRAGMENT_A fcoopmatNV<16, gl_ScopeSubgroup, kRows, kDepth>
#define FRAGMENT_B fcoopmatNV<16, gl_ScopeSubgroup, kDepth, kColumns>
#define FRAGMENT_SUM fcoopmatNV<SUM_BITS, gl_ScopeSubgroup, kRows, kColumns>
#define NO_SUM FRAGMENT_SUM(0.0)
#if SUM_BITS == 16
#define AS_STORED(sum) fcoopmatNV<32, gl_ScopeSubgroup, kRows, kColumns>(sum)
#else
#define AS_STORED(sum) sum
#endif
#define LOAD_FRAGMENT(to, at, pitch, by_columns) coopMatLoadNV(to, MEMORY, uint(at), uint(pitch), by_columns)
#define STORE_FRAGMENT(from, at, pitch) coopMatStoreNV(AS_STORED(from), MEMORY, uint(at), uint(pitch), false)
#define MULTIPLY(a, b, sum) sum = coopMatMulAddNV(a, b, sum)
)";

/// Fragments of i8, with sums in i32.
inline constexpr std::string_view kIntegerMatrixUnits = R"(
layout(constant_id = 100) const uint kRows = 16u;
layout(constant_id = 101) const uint kColumns = 16u;
layout(constant_id = 102) const uint kDepth = 32u;
#define FRAGMENT_A icoopmatNV<8, gl_ScopeSubgroup, kRows, kDepth>
#define FRAGMENT_B icoopmatNV<8, gl_ScopeSubgroup, kDepth, kColumns>
#define FRAGMENT_SUM icoopmatNV<32, gl_ScopeSubgroup, kRows, kColumns>
#define NO_SUM FRAGMENT_SUM(0)
#define LOAD_FRAGMENT(to, at, pitch, by_columns) coopMatLoadNV(to, MEMORY, uint(at), uint(pitch), by_columns)
#define STORE_FRAGMENT(from, at, pitch) coopMatStoreNV(from, MEMORY, uint(at), uint(pitch), false)
#define MULTIPLY(a, b, sum) sum = coopMatMulAddNV(a, b, sum)
)";

}  // namespace hearth::gpu
