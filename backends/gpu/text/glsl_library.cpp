#include "glsl_library.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include <fmt/format.h>

#include "glsl_math.hpp"
#include "glsl_prelude.hpp"

namespace hearth::gpu {
namespace {

struct LibraryFunction {
  std::string_view name;
  std::string_view text;
};

// A function stands behind its callees.
constexpr LibraryFunction kLibrary[] = {
    {"min_f32", "FN float min_f32(float a, float b) { return a < b || is_nan(a) ? a : b; }\n"},
    {"max_f32", "FN float max_f32(float a, float b) { return a > b || is_nan(a) ? a : b; }\n"},
    {"min_f64", "FN double min_f64(double a, double b) { return a < b || is_nan(a) ? a : b; }\n"},
    {"max_f64", "FN double max_f64(double a, double b) { return a > b || is_nan(a) ? a : b; }\n"},
    {"min_i32", "FN int min_i32(int a, int b) { return a < b ? a : b; }\n"},
    {"max_i32", "FN int max_i32(int a, int b) { return a > b ? a : b; }\n"},
    {"min_i64", "FN int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }\n"},
    {"max_i64", "FN int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }\n"},
    {"min_u8", "FN uint min_u8(uint a, uint b) { return a < b ? a : b; }\n"},
    {"max_u8", "FN uint max_u8(uint a, uint b) { return a > b ? a : b; }\n"},
    {"min_i8", "FN int min_i8(int a, int b) { return a < b ? a : b; }\n"},
    {"max_i8", "FN int max_i8(int a, int b) { return a > b ? a : b; }\n"},
    // Of equal values the first is kept; NaN wins over every number.
    {"top_f32", "FN float top_f32(float a, float b) { return b > a || is_nan(b) ? b : a; }\n"},
    {"bottom_f32",
     "FN float bottom_f32(float a, float b) { return b < a || is_nan(b) ? b : a; }\n"},
    {"top_f64", "FN double top_f64(double a, double b) { return b > a || is_nan(b) ? b : a; }\n"},
    {"bottom_f64",
     "FN double bottom_f64(double a, double b) { return b < a || is_nan(b) ? b : a; }\n"},
    // Negative numbers of places are large as unsigned ones.
    {"shift_left_i32",
     "FN int shift_left_i32(int a, int b) { return uint(b) < 32u ? a << b : 0; }\n"},
    {"shift_left_i64",
     "FN int64_t shift_left_i64(int64_t a, int64_t b) { return uint64_t(b) < 64ul ? a << int(b) : "
     "0l; }\n"},
    {"shift_left_u8",
     "FN uint shift_left_u8(uint a, uint b) { return b < 8u ? (a << b) & 255u : 0u; }\n"},
    {"shift_left_i8",
     "FN int shift_left_i8(int a, int b) { return uint(b) < 8u ? (a << (b + 24)) >> 24 : 0; }\n"},
    {"shift_right_i32",
     "FN int shift_right_i32(int a, int b) { return a >> (uint(b) < 32u ? b : 31); }\n"},
    {"shift_right_i64",
     "FN int64_t shift_right_i64(int64_t a, int64_t b) { return a >> (uint64_t(b) < 64ul ? int(b) "
     ": 63); }\n"},
    {"shift_right_u8", "FN uint shift_right_u8(uint a, uint b) { return b < 8u ? a >> b : 0u; }\n"},
    {"shift_right_i8",
     "FN int shift_right_i8(int a, int b) { return a >> (uint(b) < 8u ? b : 7); }\n"},
    // The smallest value over -1 wraps; division by zero gives 0.
    {"div_i32", "FN int div_i32(int a, int b) { return b == -1 ? -a : b == 0 ? 0 : a / b; }\n"},
    {"div_i64",
     "FN int64_t div_i64(int64_t a, int64_t b) { return b == -1l ? -a : b == 0l ? 0l : a / b; }\n"},
    {"div_u8", "FN uint div_u8(uint a, uint b) { return b == 0u ? 0u : a / b; }\n"},
    {"div_i8", "FN int div_i8(int a, int b) { return b == 0 ? 0 : ((a / b) << 24) >> 24; }\n"},
    {"pow_i32",
     R"(FN int pow_i32(int base, int exponent) {
  if (exponent < 0) {
    return base == 1 ? 1 : base == -1 ? ((exponent & 1) != 0 ? -1 : 1) : 0;
  }
  int result = 1;
  for (int square = base; exponent != 0; exponent >>= 1) {
    result *= (exponent & 1) != 0 ? square : 1;
    square *= square;
  }
  return result;
}
)"},
    {"pow_i8",
     R"(FN int pow_i8(int base, int exponent) {
  if (exponent < 0) {
    return base == 1 ? 1 : base == -1 ? ((exponent & 1) != 0 ? -1 : 1) : 0;
  }
  int result = 1;
  for (int square = base; exponent != 0; exponent >>= 1) {
    result *= (exponent & 1) != 0 ? square : 1;
    square *= square;
  }
  return (result << 24) >> 24;
}
)"},
    {"pow_i64",
     R"(FN int64_t pow_i64(int64_t base, int64_t exponent) {
  if (exponent < 0l) {
    return base == 1l ? 1l : base == -1l ? ((exponent & 1l) != 0l ? -1l : 1l) : 0l;
  }
  int64_t result = 1l;
  for (int64_t square = base; exponent != 0l; exponent >>= 1) {
    result *= (exponent & 1l) != 0l ? square : 1l;
    square *= square;
  }
  return result;
}
)"},
    {"pow_u8",
     R"(FN uint pow_u8(uint base, uint exponent) {
  uint result = 1u;
  for (uint square = base; exponent != 0u; exponent >>= 1) {
    result *= (exponent & 1u) != 0u ? square : 1u;
    square *= square;
  }
  return result & 255u;
}
)"},
    {"bool_of_f32", "FN bool bool_of_f32(float x) { return x != 0.0 || is_nan(x); }\n"},
    {"bool_of_f64", "FN bool bool_of_f64(double x) { return x != 0.0lf || is_nan(x); }\n"},
    {"i32_of_f32",
     R"(FN int i32_of_f32(float x) {
  return is_nan(x)            ? 0
         : x >= 2147483648.0  ? 0x7fffffff
         : x <= -2147483648.0 ? int(0x80000000u)
                              : int(x);
}
)"},
    {"i64_of_f32",
     R"(FN int64_t i64_of_f32(float x) {
  return is_nan(x)                     ? 0l
         : x >= 9223372036854775808.0  ? 0x7fffffffffffffffl
         : x <= -9223372036854775808.0 ? int64_t(0x8000000000000000ul)
                                       : int64_t(x);
}
)"},
    {"u8_of_f32",
     "FN uint u8_of_f32(float x) { return is_nan(x) || x <= 0.0 ? 0u : x >= 255.0 ? 255u : "
     "uint(x); }\n"},
    {"i8_of_f32",
     "FN int i8_of_f32(float x) { return is_nan(x) ? 0 : x <= -128.0 ? -128 : x >= 127.0 ? 127 : "
     "int(x); }\n"},
    {"i32_of_f64",
     R"(FN int i32_of_f64(double x) {
  return is_nan(x)              ? 0
         : x >= 2147483647.0lf  ? 0x7fffffff
         : x <= -2147483648.0lf ? int(0x80000000u)
                                : int(x);
}
)"},
    {"i64_of_f64",
     R"(FN int64_t i64_of_f64(double x) {
  return is_nan(x)                       ? 0l
         : x >= 9223372036854775808.0lf  ? 0x7fffffffffffffffl
         : x <= -9223372036854775808.0lf ? int64_t(0x8000000000000000ul)
                                         : int64_t(x);
}
)"},
    {"u8_of_f64",
     "FN uint u8_of_f64(double x) { return is_nan(x) || x <= 0.0lf ? 0u : x >= 255.0lf ? 255u : "
     "uint(x); }\n"},
    {"i8_of_f64",
     "FN int i8_of_f64(double x) { return is_nan(x) ? 0 : x <= -128.0lf ? -128 : x >= 127.0lf ? "
     "127 : "
     "int(x); }\n"},
    {"f16_of_f32", "FN float f16_of_f32(float x) { return f16_to_f32(f32_to_f16(x)); }\n"},
    {"bf16_of_f32", "FN float bf16_of_f32(float x) { return bf16_to_f32(f32_to_bf16(x)); }\n"},
    // First of two roundings to 16 bits: rounds toward zero, and sets the last bit when something
    // was lost. The second rounding then gives the result of a single one (round to odd).
    {"sticky_of_f64",
     R"(FN float sticky_of_f64(double x) {
  const float near = float(x);
  if (is_nan(x) || double(near) == x) {
    return near;
  }
  const uint bits = floatBitsToUint(near);
  return uintBitsToFloat((abs(double(near)) > abs(x) ? bits - 1u : bits) | 1u);
}
)"},
    {"sticky_of_i64",
     R"(FN float sticky_of_i64(int64_t x) {
  const uint64_t size = x < 0l ? uint64_t(-x) : uint64_t(x);
  const uint high = uint(size >> 32);
  const int top = high != 0u ? findMSB(high) + 32 : findMSB(uint(size));
  const int shift = top > 23 ? top - 23 : 0;
  const uint64_t lost = size & ((1ul << shift) - 1ul);
  const uint kept = uint(size >> shift) | (lost != 0ul ? 1u : 0u);
  const float value = float(kept) * uintBitsToFloat(uint(shift + 127) << 23);
  return x < 0l ? -value : value;
}
)"},
    {"sticky_of_i32",
     R"(FN float sticky_of_i32(int x) {
  const uint size = x < 0 ? uint(-x) : uint(x);
  const int shift = max(findMSB(size) - 23, 0);
  const uint lost = size & ((1u << shift) - 1u);
  const float value = float((size >> shift) | (lost != 0u ? 1u : 0u)) *
                      uintBitsToFloat(uint(shift + 127) << 23);
  return x < 0 ? -value : value;
}
)"},
    {"philox_word",
     R"(// Philox4x32-10 (runtime/base/values/philox.hpp): word place % 4 of block counter + place / 4.
FN uint philox_word(IN_OUT(PhiloxCache) cache, int64_t seed, int64_t counter, int64_t place) {
  const uint64_t block = uint64_t(counter) + (uint64_t(place) >> 2);
  if (!cache.is_set || cache.block != block) {
    uvec2 key = unpackUint2x32(uint64_t(seed));
    uvec4 words = uvec4(unpackUint2x32(block), 0u, 0u);
    UNROLLED for (int i = 0; i < 10; ++i) {
      uint a_high;
      uint a_low;
      uint b_high;
      uint b_low;
      umulExtended(0xD2511F53u, words.x, a_high, a_low);
      umulExtended(0xCD9E8D57u, words.z, b_high, b_low);
      words = uvec4(b_high ^ words.y ^ key.x, b_low, a_high ^ words.w ^ key.y, a_low);
      key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    cache.is_set = true;
    cache.block = block;
    cache.words = words;
  }
  const uint i = uint(place) & 3u;
  return i == 0u ? cache.words.x : i == 1u ? cache.words.y : i == 2u ? cache.words.z
                                                                     : cache.words.w;
}
)"},
    // For results that are rounded to f16 or bf16 at once: relative error below 2^-14.
    {"q_div", "FN float q_div(float a, float b) { return a / b; }\n"},
    // Divides by a number that is the same for all elements: the compiler computes its reciprocal
    // once.
    {"q_div_by",
     R"(#ifdef HAS_MATH
FN float q_div_by(float a, Divisor b) { return a * b.near_reciprocal * b.scale; }
FN float q_div_by(float a, float b) { return q_div_by(a, Divisor(b)); }
#else
FN float q_div_by(float a, float b) {
  const uint exponent = (floatBitsToUint(b) >> 23) & 255u;
  if (exponent > 3u && exponent < 251u) {
    return a * (1.0 / b);
  }
  return a / b;
}
#endif
)"},
    {"q_sqrt", "FN float q_sqrt(float x) { return x > 0.0 ? sqrt(x) : x == 0.0 ? x : M_NAN; }\n"},
    {"q_exp", "FN float q_exp(float x) { return exp2(x * 1.44269504088896341); }\n"},
    {"q_tanh",
     R"(FN float q_tanh(float x) {
  const float magnitude = abs(x);
  const float z = x * x;
  const float near = magnitude - magnitude * z * (0.333333333 - 0.133333333 * z);
  const float bounded = magnitude > 10.0 ? 10.0 : magnitude;
  const float far = 1.0 - near_div(2.0, exp2(bounded * 2.88539008177792681) + 1.0);
  return is_nan(x) ? x : m_copy_sign(magnitude < 0.1 ? near : far, x);
}
)"},
    // 1 - 2^polynomial nearly down to 0, of least relative error with the slope of erf there.
    // Beyond 4 the polynomial goes on falling, to -infinity. A NaN stays NaN.
    {"q_erf",
     R"(FN float q_erf(float x) {
  const float t = abs(x);
  float far = mul_sub(-1.97596766e-05, t, 2.90754886e-03);
  far = mul_add(far, t, 2.96609815e-02);
  far = mul_sub(far, t, 1.48851154e-01);
  far = mul_sub(far, t, 9.18396747e-01);
  far = mul_sub(far, t, 1.6279069);
  far = far * t;
  return m_copy_sign(CHOOSE(t < 0.008, 1.12837917 * t, 1.0 - exp2(far)), x);
}
)"},
};

bool calls(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos;
       at = text.find(name, at + 1)) {
    const auto is_part = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    };
    const bool begins = at == 0 || !is_part(text[at - 1]);
    if (begins && at + name.size() < text.size() && text[at + name.size()] == '(') {
      return true;
    }
  }
  return false;
}

std::string real_literal(double value, bool is_double) {
  if (std::isfinite(value) && (value != 0 || !std::signbit(value))) {
    std::string text = is_double ? fmt::format("{:.17g}", value)
                                 : fmt::format("{:.9g}", static_cast<float>(value));
    if (text.find_first_of(".e") == std::string::npos) {
      text += ".0";
    }
    text += is_double ? "lf" : "f";
    return value < 0 ? fmt::format("({})", text) : text;
  }
  if (!is_double) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return fmt::format("uintBitsToFloat({:#x}u)", bits);
  }
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return fmt::format("packDouble2x32(uvec2({:#x}u, {:#x}u))",
                     static_cast<std::uint32_t>(bits),
                     static_cast<std::uint32_t>(bits >> 32U));
}

std::string literal(DType type, std::uint64_t bits) {
  switch (type) {
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return real_literal(std::bit_cast<double>(bits), false);
    case DType::f64:
      return real_literal(std::bit_cast<double>(bits), true);
    case DType::i32: {
      const auto value = static_cast<std::int32_t>(bits);
      return value >= 0 ? fmt::format("{}", value)
                        : fmt::format("int({:#x}u)", static_cast<std::uint32_t>(value));
    }
    case DType::i64: {
      const auto value = std::bit_cast<std::int64_t>(bits);
      return value >= 0 ? fmt::format("{}l", value) : fmt::format("int64_t({:#x}ul)", bits);
    }
    case DType::u8:
      return fmt::format("{}u", bits & 255U);
    case DType::i8:
      return literal(DType::i32,
                     static_cast<std::uint64_t>(std::int64_t{static_cast<std::int8_t>(bits)}));
    case DType::boolean:
    default:
      return bits != 0 ? "true" : "false";
  }
}

constexpr Spelling kGlsl{
    .types = {"float", "double", "float", "float", "int", "int64_t", "uint", "bool", "int"},
    .real_value = "precise const",
    .other_value = "const",
    .literal = literal,
};

}  // namespace

const Spelling& glsl_spelling() noexcept {
  return kGlsl;
}

std::string glsl_library(std::string_view text) {
  std::vector<const LibraryFunction*> used;
  std::string all(text);
  for (auto piece = std::rbegin(kLibrary); piece != std::rend(kLibrary); ++piece) {
    if (calls(all, piece->name)) {
      used.push_back(&*piece);
      all += piece->text;
    }
  }
  std::string library;
  for (auto piece = used.rbegin(); piece != used.rend(); ++piece) {
    library += (*piece)->text;
  }
  return library;
}

std::string glsl_divisors(std::span<const std::string> divisors) {
  std::string text;
  for (std::size_t i = 0; i < divisors.size(); ++i) {
    text += fmt::format("NEW_DIVISOR(by{}, {})\n", i, divisors[i]);
  }
  return text;
}

std::string glsl_philox_caches(int count) {
  if (count == 0) {
    return {};
  }
  std::string text = "struct PhiloxCache { bool is_set; uint64_t block; uvec4 words; };\n";
  for (int i = 0; i < count; ++i) {
    text += fmt::format("PhiloxCache words{} = NEW3(PhiloxCache, false, 0ul, uvec4(0u));\n", i);
  }
  return text;
}

std::string glsl_parameter_members(const KernelIR& kernel) {
  std::string members;
  for (std::size_t i = 0; i < kernel.parameters.size(); ++i) {
    const DType type = kernel.parameters[i];
    members += fmt::format("{} s{}; ", type == DType::boolean ? "int" : glsl_compute_type(type), i);
  }
  return members;
}

std::string glsl_pointwise_function(const KernelIR& kernel, std::string_view name) {
  BodyPrinter printer(kernel, kGlsl);
  std::string body;
  printer.print_all(body);
  std::string text = fmt::format("FN void {}(", name);
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    text += fmt::format("IN({}) x{}, ", glsl_compute_type(kernel.inputs[i].dtype), i);
  }
  text += "IN(int64_t) place";
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    text += fmt::format(", OUT({}) y{}", glsl_compute_type(kernel.outputs[i].dtype), i);
  }
  text += ") {\n" + body;
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    text += fmt::format("y{} = {};\n", i, printer.stored(i));
  }
  text += "}\n";
  MathUse math = printer.math();
  return glsl_philox_caches(printer.philox_caches()) + glsl_math(math) +
         glsl_divisors(printer.divisors()) + glsl_library(text) + text;
}

}  // namespace hearth::gpu
