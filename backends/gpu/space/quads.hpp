// Loads and stores of four contiguous elements at once, for shaders behind the prelude:
//   load4_<dtype>(address, i), store4_<dtype>(address, i, V4)     stores: f32 and f64
//   load8_<dtype>(address, i)      the bits of eight, as a uvec4: f16 and bf16
//   load16_i8(address, i)          the bits of sixteen
// V4 is vec4, dvec4 for f64, or ivec4 for i8. Pure functions. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth::gpu {

/// Supports f32, f64, f16, bf16 and i8.
[[nodiscard]] std::string_view glsl_quads(DType dtype) noexcept;

/// Alignment, in bytes, of four elements that are read at once.
[[nodiscard]] constexpr std::uintptr_t quad_alignment(DType dtype) noexcept {
  return dtype == DType::i8 ? 4 : dtype == DType::f64 || dtype == DType::f32 ? 16 : 8;
}
[[nodiscard]] inline bool is_aligned_to_quad(const std::byte* data, DType dtype) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % quad_alignment(dtype) == 0;  // NOLINT: an address
}

}  // namespace hearth::gpu
