#include "quads.hpp"

namespace hearth::gpu {

std::string_view glsl_quads(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return R"(
BUFFER_HALVES(Quad, dvec2, 16);
FN dvec4 load4_f64(uint64_t a, INDEX i) {
  Quad quad = Quad(a + uint64_t(int64_t(i) * 8l));
  return dvec4(quad.low, quad.high);
}
FN void store4_f64(uint64_t a, INDEX i, dvec4 x) {
  Quad quad = Quad(a + uint64_t(int64_t(i) * 8l));
  quad.low = XY(x);
  quad.high = ZW(x);
}
)";
    case DType::f16:
      return R"(
BUFFER_ONE(Quad, uvec2, 8);
READ_BUFFER_ONE(Eight, uvec4, 16);
FN uvec4 load8_f16(uint64_t a, INDEX i) { return Eight(a + uint64_t(int64_t(i) * 2l)).v; }
FN vec4 load4_f16(uint64_t a, INDEX i) {
  const uvec2 x = Quad(a + uint64_t(int64_t(i) * 2l)).v;
  return vec4(f16_to_f32(x.x & 0xffffu), f16_to_f32(x.x >> 16),
              f16_to_f32(x.y & 0xffffu), f16_to_f32(x.y >> 16));
}
)";
    case DType::bf16:
      return R"(
BUFFER_ONE(Quad, uvec2, 8);
READ_BUFFER_ONE(Eight, uvec4, 16);
FN uvec4 load8_bf16(uint64_t a, INDEX i) { return Eight(a + uint64_t(int64_t(i) * 2l)).v; }
FN vec4 load4_bf16(uint64_t a, INDEX i) {
  const uvec2 x = Quad(a + uint64_t(int64_t(i) * 2l)).v;
  return vec4(uintBitsToFloat(x.x << 16), uintBitsToFloat(x.x & 0xffff0000u),
              uintBitsToFloat(x.y << 16), uintBitsToFloat(x.y & 0xffff0000u));
}
)";
    case DType::i8:
      return R"(
BUFFER_ONE(Quad, uint, 4);
READ_BUFFER_ONE(Sixteen, uvec4, 16);
FN uvec4 load16_i8(uint64_t a, INDEX i) { return Sixteen(a + uint64_t(int64_t(i))).v; }
FN ivec4 load4_i8(uint64_t a, INDEX i) {
  const uint x = Quad(a + uint64_t(int64_t(i))).v;
  return ivec4(x << 24, x << 16, x << 8, x) >> 24;
}
)";
    default:
      return R"(
BUFFER_ONE(Quad, vec4, 16);
FN vec4 load4_f32(uint64_t a, INDEX i) { return Quad(a + uint64_t(int64_t(i) * 4l)).v; }
FN void store4_f32(uint64_t a, INDEX i, vec4 x) { Quad(a + uint64_t(int64_t(i) * 4l)).v = x; }
)";
  }
}

}  // namespace hearth::gpu
