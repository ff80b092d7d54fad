// Loads and stores of four elements in a row as one, for shaders behind the prelude:
//   load4_<dtype>(address, i), store4_<dtype>(address, i, V4)     stores: f32 and f64
// V4 is vec4, or dvec4 for f64. Pure functions. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth::vulkan {

/// Of f32, f64, f16 or bf16.
[[nodiscard]] std::string_view glsl_quads(DType dtype) noexcept;

/// Whether four elements from there on can be read at once.
[[nodiscard]] inline bool is_aligned_to_quad(const std::byte* data, DType dtype) noexcept {
  const std::uintptr_t bytes = dtype == DType::f64 || dtype == DType::f32 ? 16 : 8;
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;  // NOLINT: a device address
}

}  // namespace hearth::vulkan
