#include "glsl_vectors.hpp"

#include <array>
#include <vector>

#include <fmt/format.h>

#include <hearth/runtime/base/assert.hpp>

#include "glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

// Word i of a vector that is loaded as q0, q1, ... of up to four components each.
std::string word(std::int64_t i, std::int64_t all) {
  if (all == 1) {
    return "q0";
  }
  return fmt::format("q{}.{}", i / 4, "xyzw"[i % 4]);
}

// The elements of word i, or of words i and i + 1.
std::vector<std::string> unpacked(DType dtype, std::int64_t i, std::int64_t all) {
  const std::string w = word(i, all);
  switch (dtype) {
    case DType::f32:
      return {fmt::format("uintBitsToFloat({})", w)};
    case DType::i32:
      return {fmt::format("int({})", w)};
    case DType::f64:
      return {fmt::format("packDouble2x32(uvec2({}, {}))", w, word(i + 1, all))};
    case DType::i64:
      return {fmt::format("int64_t(packUint2x32(uvec2({}, {})))", w, word(i + 1, all))};
    case DType::f16:
      return {fmt::format("f16_pair_to_f32({}).x", w), fmt::format("f16_pair_to_f32({}).y", w)};
    case DType::bf16:
      return {fmt::format("uintBitsToFloat({} << 16)", w),
              fmt::format("uintBitsToFloat({} & 0xffff0000u)", w)};
    default:
      break;
  }
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 4; ++byte) {
    bytes.push_back(
        dtype == DType::i8
            ? fmt::format("(int({} << {}) >> 24)", w, 24 - 8 * byte)
            : fmt::format(
                  "(({} >> {}) & 255u){}", w, 8 * byte, dtype == DType::boolean ? " != 0u" : ""));
  }
  return bytes;
}

// Packs elements y[0], ... into word i.
std::string packed(DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::f32:
      return fmt::format("floatBitsToUint(y[{}])", i);
    case DType::i32:
      return fmt::format("uint(y[{}])", i);
    case DType::f64:
      return fmt::format("unpackDouble2x32(y[{}]).{}", i / 2, "xy"[i % 2]);
    case DType::i64:
      return fmt::format("unpackUint2x32(uint64_t(y[{}])).{}", i / 2, "xy"[i % 2]);
    case DType::f16:
    case DType::bf16:
      return fmt::format("f32_to_{}_pair(y[{}], y[{}])", glsl_suffix(dtype), 2 * i, 2 * i + 1);
    default:
      break;
  }
  std::string text;
  for (unsigned byte = 0; byte < 4; ++byte) {
    const std::int64_t at = 4 * i + byte;
    text += byte == 0 ? "" : " | ";
    text += dtype == DType::boolean ? fmt::format("(y[{}] ? {}u : 0u)", at, 1U << 8U * byte)
            : dtype == DType::i8    ? fmt::format("((uint(y[{}]) & 255u) << {})", at, 8 * byte)
                                    : fmt::format("((y[{}] & 255u) << {})", at, 8 * byte);
  }
  return text;
}

std::string_view buffer_of(std::int64_t words) {
  return words == 1 ? "Words1" : words == 2 ? "Words2" : "Words4";
}
std::string_view words_type(std::int64_t words) {
  return words == 1 ? "uint" : words == 2 ? "uvec2" : "uvec4";
}

}  // namespace

std::string_view glsl_vector_types() noexcept {
  return R"(
BUFFER_ONE(Words1, uint, 4);
BUFFER_ONE(Words2, uvec2, 8);
BUFFER_ONE(Words4, uvec4, 16);
)";
}

std::string glsl_vector_access(DType dtype, int elements) {
  const std::int64_t words = size_bytes(dtype) * elements / 4;
  HEARTH_ASSERT(words >= 1, "a vector has at least one word");
  const std::string_view type = glsl_compute_type(dtype);
  const std::int64_t step = words < 4 ? words : 4;
  std::string load = fmt::format("FN void load_{0}x{1}(uint64_t a, OUT_ARRAY({2}, x, {1})) {{\n",
                                 glsl_suffix(dtype),
                                 elements,
                                 type);
  std::string store = fmt::format("FN void store_{0}x{1}(uint64_t a, IN_ARRAY({2}, y, {1})) {{\n",
                                  glsl_suffix(dtype),
                                  elements,
                                  type);
  for (std::int64_t i = 0; i < words; i += step) {
    load += fmt::format(
        "const {} q{} = {}(a + {}ul).v;\n", words_type(step), i / 4, buffer_of(step), 4 * i);
    store += fmt::format("{}(a + {}ul).v = {}(", buffer_of(step), 4 * i, words_type(step));
    for (std::int64_t j = 0; j < step; ++j) {
      store += (j == 0 ? "" : ",\n    ") + packed(dtype, i + j);
    }
    store += ");\n";
  }
  int element = 0;
  const std::int64_t words_each = size_bytes(dtype) == 8 ? 2 : 1;
  for (std::int64_t i = 0; i < words; i += words_each) {
    for (const std::string& value : unpacked(dtype, i, words)) {
      load += fmt::format("x[{}] = {};\n", element++, value);
    }
  }
  return load + "}\n" + store + "}\n";
}

}  // namespace hearth::gpu
