#include "glsl_prelude.hpp"

#include <fmt/format.h>

namespace hearth::gpu {
namespace {

constexpr std::string_view kExtensions = R"(#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference2 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
)";

// The vocabulary in GLSL. Reading gl_NumWorkGroups costs an H200 0.3 us a dispatch. Where the
// grid's first axis has the maximal length, the second row begins at that constant instead.
constexpr std::string_view kWords = R"(
layout(local_size_x = GROUP_THREADS, local_size_y = 1, local_size_z = 1) in;
#define FN
#define UNROLLED [[unroll]]
#define ROLLED [[dont_unroll]]
#define IN(T) const in T
#define OUT(T) out T
#define IN_OUT(T) inout T
#define IN_ARRAY(T, name, n) const in T name[n]
#define OUT_ARRAY(T, name, n) out T name[n]
#define IN_OUT_ARRAY(T, name, n) inout T name[n]
#define COPY_ARRAY(T, name, n, from) T name[n] = from
#define ARRAY1(T) T[1]
#define ARRAY4(T) T[4]
#define ARRAY8(T) T[8]
#define LIST8(T, a, b, c, d, e, f, g, h) T[8](a, b, c, d, e, f, g, h)
#define NEW_LIST8(T, E, a, b, c, d, e, f, g, h) T(E[8](a, b, c, d, e, f, g, h))
#define NEW1(T, a) T(a)
#define NEW2(T, a, b) T(a, b)
#define NEW3(T, a, b, c) T(a, b, c)
#define NEW4(T, a, b, c, d) T(a, b, c, d)
#define NEW7(T, a, b, c, d, e, f, g) T(a, b, c, d, e, f, g)
#define ADD_PRODUCT(sum, a, b) sum += (a) * (b)
#define RETURN_EITHER(T, takes_first, a, b) if (takes_first) { return a; } return b;
#define XY(v) v.xy
#define ZW(v) v.zw
#define YZW(v) v.yzw
#define SHARED(T, name, n) shared T name[n]
#define SHARED_ONE(T, name) shared T name
#define MEMORY_AT(align) layout(buffer_reference, scalar, buffer_reference_align = align)
#define BUFFER(name, T, align) MEMORY_AT(align) buffer name { T v[]; }
#define READ_BUFFER(name, T, align) MEMORY_AT(align) readonly buffer name { T v[]; }
#define WRITE_BUFFER(name, T, align) MEMORY_AT(align) writeonly buffer name { T v[]; }
#define BUFFER_ONE(name, T, align) MEMORY_AT(align) buffer name { T v; }
#define READ_BUFFER_ONE(name, T, align) MEMORY_AT(align) readonly buffer name { T v; }
#define WRITE_BUFFER_ONE(name, T, align) MEMORY_AT(align) writeonly buffer name { T v; }
#define BUFFER_HALVES(name, T, align) MEMORY_AT(align) buffer name { T low; T high; }
#define BUFFER_OF(name, align) MEMORY_AT(align) buffer name
#define AT(name, address) name(address)
#ifndef PUSHED
#define PUSHED
#endif
#define PARAMETERS layout(push_constant, scalar) uniform Parameters {
#define END_PARAMETERS PUSHED } p;
#define LONG_PARAMETERS MEMORY_AT(8) readonly buffer Parameters {
#define END_LONG_PARAMETERS }; layout(push_constant, scalar) uniform Root { Parameters p; PUSHED };
#ifdef LONG_GRIDS
#define GROUP (gl_WorkGroupID.y * 0x7fffffffu + gl_WorkGroupID.x)
#else
#define GROUP (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x)
#endif
#define THREAD gl_LocalInvocationID.x
#define GROUP_SIZE gl_WorkGroupSize.x
#define LANE_NUMBER gl_SubgroupInvocationID
#define WARP_NUMBER gl_SubgroupID
#define WARP_SIZE gl_SubgroupSize
#define WARP_COUNT gl_NumSubgroups
#define shuffle_xor(x, bits) subgroupShuffleXor(x, bits)
#define warp_barrier() subgroupBarrier()
)";

// Functions of every language. f16 is converted by its bits, because drivers differ in denormals
// and ties. A text compiled for a device with correct conversions uses the instructions, as for
// bf16.
constexpr std::string_view kSharedFunctions = R"(
BUFFER(Words32f, float, 4);
BUFFER(Words64f, double, 8);
BUFFER(Words16, uint16_t, 2);
BUFFER(Words32, int, 4);
BUFFER(Words32u, uint, 4);
BUFFER(Words64, int64_t, 8);
BUFFER(Words8, uint8_t, 1);

FN bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
FN bool is_nan(double x) {
  const uvec2 words = unpackDouble2x32(x);
  const uint high = words.y & 0x7fffffffu;
  return high > 0x7ff00000u || (high == 0x7ff00000u && words.x != 0u);
}

#ifdef CONVERTS_F16
FN vec2 f16_pair_to_f32(uint w) { return vec2(unpackFloat2x16(w)); }
FN float f16_to_f32(uint half_bits) { return f16_pair_to_f32(half_bits).x; }
FN uint f32_to_f16_pair(float x, float y) { return packFloat2x16(f16vec2(x, y)); }
FN uint f32_to_f16(float x) { return f32_to_f16_pair(x, 0.0); }
#else
FN float f16_to_f32(uint half_bits) {
  const uint sign = (half_bits & 0x8000u) << 16;
  const uint exponent = (half_bits >> 10) & 31u;
  const uint mantissa = half_bits & 1023u;
  if (exponent == 31u) {
    return uintBitsToFloat(sign | 0x7f800000u | (mantissa << 13));
  }
  if (exponent == 0u) {
    const float magnitude = float(mantissa) * 5.9604644775390625e-8;
    return sign != 0u ? -magnitude : magnitude;
  }
  return uintBitsToFloat(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}
FN uint f32_to_f16(float x) {
  const uint bits = floatBitsToUint(x);
  const uint sign = (bits >> 16) & 0x8000u;
  const uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return sign | 0x7e00u;
  }
  if (magnitude >= 0x477ff000u) {
    return sign | 0x7c00u;
  }
  if (magnitude < 0x38800000u) {
    // Below 2^-14: whole multiples of 2^-24, with ties to even.
    if (magnitude < 0x33000000u) {
      return sign;
    }
    const uint shift = 126u - (magnitude >> 23);
    const uint mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint kept = mantissa >> shift;
    const uint rest = mantissa & ((1u << shift) - 1u);
    const uint tie = 1u << (shift - 1u);
    return sign | (kept + (rest > tie || (rest == tie && (kept & 1u) != 0u) ? 1u : 0u));
  }
  return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13);
}
FN vec2 f16_pair_to_f32(uint w) { return vec2(f16_to_f32(w & 0xffffu), f16_to_f32(w >> 16)); }
FN uint f32_to_f16_pair(float x, float y) { return f32_to_f16(x) | (f32_to_f16(y) << 16); }
#endif
FN float bf16_to_f32(uint bits) { return uintBitsToFloat(bits << 16); }
#ifdef CONVERTS_BF16
FN uint f32_to_bf16_pair(float x, float y) { return pack_bf16(x, y); }
FN uint f32_to_bf16(float x) { return f32_to_bf16_pair(x, 0.0); }
#else
// In the upper half of the word; what the lower one holds does not count.
FN uint f32_to_upper_bf16(float x) {
  const uint bits = floatBitsToUint(x);
  return is_nan(x) ? 0x7fc00000u : bits + 0x7fffu + ((bits >> 16) & 1u);
}
FN uint f32_to_bf16(float x) { return f32_to_upper_bf16(x) >> 16; }
FN uint f32_to_bf16_pair(float x, float y) {
  return (f32_to_upper_bf16(x) >> 16) | (f32_to_upper_bf16(y) & 0xffff0000u);
}
#endif
)";

// One element by address and index. The shader computes the address itself. Array indices have 32
// bits, and NVIDIA's driver takes a negative one, as of an operand read backwards, for a large one.
constexpr std::string_view kAccess = R"(
#define ELEMENT(Words, address, i, size) Words((address) + uint64_t(int64_t(i) * size)).v[0]
FN float load_f32(uint64_t a, INDEX i) { return ELEMENT(Words32f, a, i, 4l); }
FN double load_f64(uint64_t a, INDEX i) { return ELEMENT(Words64f, a, i, 8l); }
FN float load_f16(uint64_t a, INDEX i) { return f16_to_f32(uint(ELEMENT(Words16, a, i, 2l))); }
FN float load_bf16(uint64_t a, INDEX i) { return bf16_to_f32(uint(ELEMENT(Words16, a, i, 2l))); }
FN int load_i32(uint64_t a, INDEX i) { return ELEMENT(Words32, a, i, 4l); }
FN int64_t load_i64(uint64_t a, INDEX i) { return ELEMENT(Words64, a, i, 8l); }
FN uint load_u8(uint64_t a, INDEX i) { return uint(ELEMENT(Words8, a, i, 1l)); }
FN int load_i8(uint64_t a, INDEX i) { return (int(ELEMENT(Words8, a, i, 1l)) << 24) >> 24; }
FN bool load_bool(uint64_t a, INDEX i) { return ELEMENT(Words8, a, i, 1l) != uint8_t(0); }
FN void store_f32(uint64_t a, INDEX i, float x) { ELEMENT(Words32f, a, i, 4l) = x; }
FN void store_f64(uint64_t a, INDEX i, double x) { ELEMENT(Words64f, a, i, 8l) = x; }
FN void store_f16(uint64_t a, INDEX i, float x) { ELEMENT(Words16, a, i, 2l) = uint16_t(f32_to_f16(x)); }
FN void store_bf16(uint64_t a, INDEX i, float x) { ELEMENT(Words16, a, i, 2l) = uint16_t(f32_to_bf16(x)); }
FN void store_i32(uint64_t a, INDEX i, int x) { ELEMENT(Words32, a, i, 4l) = x; }
FN void store_i64(uint64_t a, INDEX i, int64_t x) { ELEMENT(Words64, a, i, 8l) = x; }
FN void store_u8(uint64_t a, INDEX i, uint x) { ELEMENT(Words8, a, i, 1l) = uint8_t(x & 255u); }
FN void store_i8(uint64_t a, INDEX i, int x) { ELEMENT(Words8, a, i, 1l) = uint8_t(x & 255); }
FN void store_bool(uint64_t a, INDEX i, bool x) { ELEMENT(Words8, a, i, 1l) = uint8_t(x ? 1 : 0); }
)";

}  // namespace

std::string glsl_prelude(const PreludeOptions& options) {
  return fmt::format("{}#define GROUP_THREADS {}\n#define INDEX {}\n{}",
                     options.more_extensions,
                     options.threads,
                     options.wide_index ? "int64_t" : "int",
                     kPreludePlace);
}

std::string prelude_functions() {
  return std::string(kSharedFunctions) + std::string(kAccess);
}

std::string glsl_text(std::string_view text) {
  const std::size_t at = text.find(kPreludePlace);
  if (at == std::string_view::npos) {
    return std::string(text);
  }
  return fmt::format("{}{}{}{}{}",
                     kExtensions,
                     text.substr(0, at),
                     kWords,
                     prelude_functions(),
                     text.substr(at + kPreludePlace.size()));
}

std::string glsl_parameters(std::string_view members, std::size_t size_bytes) {
  return size_bytes <= kPushBytes
             ? fmt::format("PARAMETERS {} END_PARAMETERS\n", members)
             : fmt::format("LONG_PARAMETERS {} END_LONG_PARAMETERS\n", members);
}

std::string_view glsl_suffix(DType dtype) noexcept {
  return name(dtype);
}

std::string_view glsl_compute_type(DType dtype) noexcept {
  constexpr std::string_view kNames[] = {
      "float", "double", "float", "float", "int", "int64_t", "uint", "bool", "int"};
  return kNames[static_cast<int>(dtype)];
}

}  // namespace hearth::gpu
