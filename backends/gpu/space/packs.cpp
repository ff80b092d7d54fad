#include "packs.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "backends/gpu/text/glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

// Extracts element j of a pack from the words w[].
std::string unpacked_from_words(DType dtype, std::int64_t j) {
  switch (dtype) {
    case DType::f32:
      return fmt::format("uintBitsToFloat(w[{}])", j);
    case DType::f64:
      return fmt::format("packDouble2x32(uvec2(w[{}], w[{}]))", 2 * j, 2 * j + 1);
    case DType::f16:
      return fmt::format("f16_pair_to_f32(w[{}]).{}", j / 2, "xy"[j % 2]);
    case DType::bf16:
      return j % 2 == 0 ? fmt::format("uintBitsToFloat(w[{}] << 16)", j / 2)
                        : fmt::format("uintBitsToFloat(w[{}] & 0xffff0000u)", j / 2);
    case DType::i32:
      return fmt::format("int(w[{}])", j);
    case DType::i64:
      return fmt::format("int64_t(packUint2x32(uvec2(w[{}], w[{}])))", 2 * j, 2 * j + 1);
    case DType::u8:
      return fmt::format("(w[{}] >> {}) & 255u", j / 4, j % 4 * 8);
    case DType::i8:
      return fmt::format("int(w[{}] << {}) >> 24", j / 4, 24 - j % 4 * 8);
    case DType::boolean:
    default:
      return fmt::format("min((w[{}] >> {}) & 255u, 1u)", j / 4, j % 4 * 8);
  }
}

// Statements that put element j into the zeroed words w[]. For 16-bit types the statement of an
// even element also stores the next one.
std::string packed_into_words(DType dtype, std::int64_t j) {
  switch (dtype) {
    case DType::f32:
      return fmt::format("  w[{0}] = floatBitsToUint(v[{0}]);\n", j);
    case DType::f64:
      return fmt::format(
          "  {{ const uvec2 d = unpackDouble2x32(v[{}]); w[{}] = d.x; w[{}] = d.y; }}\n",
          j,
          2 * j,
          2 * j + 1);
    case DType::f16:
    case DType::bf16:
      return j % 2 != 0 ? std::string()
                        : fmt::format("  w[{}] = f32_to_{}_pair(v[{}], v[{}]);\n",
                                      j / 2,
                                      glsl_suffix(dtype),
                                      j,
                                      j + 1);
    case DType::i32:
      return fmt::format("  w[{0}] = uint(v[{0}]);\n", j);
    case DType::i64:
      return fmt::format(
          "  {{ const uvec2 d = unpackUint2x32(uint64_t(v[{}])); w[{}] = d.x; w[{}] = d.y; }}\n",
          j,
          2 * j,
          2 * j + 1);
    default:
      return fmt::format("  w[{}] |= (uint(v[{}]) & 255u) << {};\n", j / 4, j, j % 4 * 8);
  }
}

std::string element_pack(std::string_view name, DType dtype) {
  const std::string_view type = glsl_value_type(dtype);
  const bool is_bool = dtype == DType::boolean;
  return fmt::format(
      "FN void load_pack_{0}(uint64_t a, INDEX i, OUT_ARRAY({1}, v, 1)) {{ v[0] = {3}(load_{2}(a, "
      "i)); }}\n"
      "FN void store_pack_{0}(uint64_t a, INDEX i, {1} v[1]) {{ store_{2}(a, i, v[0]{4}); }}\n",
      name,
      type,
      glsl_suffix(dtype),
      is_bool ? "uint" : "",
      is_bool ? " != 0u" : "");
}

}  // namespace

std::string_view glsl_value_type(DType dtype) noexcept {
  return dtype == DType::boolean ? "uint" : glsl_compute_type(dtype);
}

std::int64_t pack_of(DType dtype, std::int64_t most) noexcept {
  return std::min<std::int64_t>(most, 16 / size_bytes(dtype));
}

bool is_pack_aligned(const void* address, DType dtype, std::int64_t pack) noexcept {
  const auto bytes = static_cast<std::uintptr_t>(pack * size_bytes(dtype));
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;  // NOLINT: a device address
}

std::string glsl_pack(std::string_view name, DType dtype, std::int64_t pack, bool wide) {
  const auto size = size_bytes(dtype);
  const std::int64_t words = pack * size / 4;
  if (pack == 1) {
    return element_pack(name, dtype);
  }
  constexpr std::string_view kVectors[] = {"", "uint", "uvec2", "", "uvec4"};
  const std::string_view vector = kVectors[words];
  const std::string element = wide ? fmt::format("Pack_{}(a + uint64_t(i) * {}ul).v[0]", name, size)
                                   : fmt::format("Pack_{}(a).v[i / {}]", name, pack);
  std::string text = fmt::format("BUFFER(Pack_{}, {}, {});\n", name, vector, words * 4);
  const std::string_view type = glsl_value_type(dtype);
  text += fmt::format(
      "FN void load_pack_{}(uint64_t a, INDEX i, OUT_ARRAY({}, v, {})) {{\n", name, type, pack);
  text += fmt::format("  const {} whole = {};\n  uint w[{}];\n", vector, element, words);
  for (std::int64_t i = 0; i < words; ++i) {
    text += words == 1 ? "  w[0] = whole;\n" : fmt::format("  w[{0}] = whole[{0}];\n", i);
  }
  for (std::int64_t j = 0; j < pack; ++j) {
    text += fmt::format("  v[{}] = {};\n", j, unpacked_from_words(dtype, j));
  }
  text +=
      fmt::format("}}\nFN void store_pack_{}(uint64_t a, INDEX i, {} v[{}]) {{\n  uint w[{}];\n",
                  name,
                  type,
                  pack,
                  words);
  std::string all;
  for (std::int64_t i = 0; i < words; ++i) {
    text += fmt::format("  w[{}] = 0u;\n", i);
    all += fmt::format("{}w[{}]", i == 0 ? "" : ", ", i);
  }
  for (std::int64_t j = 0; j < pack; ++j) {
    text += packed_into_words(dtype, j);
  }
  return text + fmt::format("  {} = {}({});\n}}\n", element, vector, all);
}

std::string_view glsl_lowest(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return "packDouble2x32(uvec2(0u, 0xfff00000u))";
    case DType::i32:
      return "int(0x80000000u)";
    case DType::i64:
      return "int64_t(0x8000000000000000ul)";
    case DType::i8:
      return "-128";
    case DType::u8:
    case DType::boolean:
      return "0u";
    default:
      return "uintBitsToFloat(0xff800000u)";
  }
}

std::string_view glsl_highest(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return "packDouble2x32(uvec2(0u, 0x7ff00000u))";
    case DType::i32:
      return "0x7fffffff";
    case DType::i64:
      return "0x7fffffffffffffffl";
    case DType::i8:
      return "127";
    case DType::u8:
      return "255u";
    case DType::boolean:
      return "1u";
    default:
      return "uintBitsToFloat(0x7f800000u)";
  }
}

}  // namespace hearth::gpu
