#include "quads.hpp"

namespace hearth::gpu {

std::string_view glsl_quads(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return R"(
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Quad { dvec2 low; dvec2 high; };
dvec4 load4_f64(uint64_t a, INDEX i) {
  Quad quad = Quad(a + uint64_t(int64_t(i) * 8l));
  return dvec4(quad.low, quad.high);
}
void store4_f64(uint64_t a, INDEX i, dvec4 x) {
  Quad quad = Quad(a + uint64_t(int64_t(i) * 8l));
  quad.low = x.xy;
  quad.high = x.zw;
}
)";
    case DType::f16:
      return R"(
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Quad { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Eight { uvec4 v; };
uvec4 load8_f16(uint64_t a, INDEX i) { return Eight(a + uint64_t(int64_t(i) * 2l)).v; }
vec4 load4_f16(uint64_t a, INDEX i) {
  const uvec2 x = Quad(a + uint64_t(int64_t(i) * 2l)).v;
  return vec4(f16_to_f32(x.x & 0xffffu), f16_to_f32(x.x >> 16),
              f16_to_f32(x.y & 0xffffu), f16_to_f32(x.y >> 16));
}
)";
    case DType::bf16:
      return R"(
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Quad { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Eight { uvec4 v; };
uvec4 load8_bf16(uint64_t a, INDEX i) { return Eight(a + uint64_t(int64_t(i) * 2l)).v; }
vec4 load4_bf16(uint64_t a, INDEX i) {
  const uvec2 x = Quad(a + uint64_t(int64_t(i) * 2l)).v;
  return vec4(uintBitsToFloat(x.x << 16), uintBitsToFloat(x.x & 0xffff0000u),
              uintBitsToFloat(x.y << 16), uintBitsToFloat(x.y & 0xffff0000u));
}
)";
    case DType::i8:
      return R"(
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Quad { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) readonly buffer Sixteen { uvec4 v; };
uvec4 load16_i8(uint64_t a, INDEX i) { return Sixteen(a + uint64_t(int64_t(i))).v; }
ivec4 load4_i8(uint64_t a, INDEX i) {
  const uint x = Quad(a + uint64_t(int64_t(i))).v;
  return ivec4(x << 24, x << 16, x << 8, x) >> 24;
}
)";
    default:
      return R"(
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Quad { vec4 v; };
vec4 load4_f32(uint64_t a, INDEX i) { return Quad(a + uint64_t(int64_t(i) * 4l)).v; }
void store4_f32(uint64_t a, INDEX i, vec4 x) { Quad(a + uint64_t(int64_t(i) * 4l)).v = x; }
)";
  }
}

}  // namespace hearth::gpu
