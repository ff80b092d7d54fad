// GLSL text of the elementary functions of float (glsl_math.hpp). Private to its source. Immutable.
// `precise` marks the computation of a rounding error, which compilers must not remove. The driver
// may fuse the steps of polynomials.
// Each macro M_..._POLYNOMIAL(p, x) declares a float p and computes a polynomial of
// backends/polynomials.hpp, which CPUs share. glsl_math.cpp prints the macros.
#pragma once

#include <string_view>

namespace hearth::detail {

// The macros stand here, not in the prelude, where a program's kernel could not use their names.
inline constexpr std::string_view kBasicF32 = R"(
#ifndef HAS_MATH
#define mul_add(a, b, c) (a) * (b) + (c)
#define mul_sub(a, b, c) (a) * (b) - (c)
#define near_div(a, b) (a) / (b)
#define NEW_DIVISOR(name, number)
#define DIVISOR(name, number) number
#define m_div_by(a, b) m_div(a, b)
#define CHOOSE(takes_first, a, b) (takes_first) ? (a) : (b)
#endif
#define M_INF uintBitsToFloat(0x7f800000u)
#define M_NAN uintBitsToFloat(0x7fc00000u)
FN bool m_is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }
// Of a magnitude, which has no sign. LLVM 15 gets masks wrong on CPUs with AVX-512.
#ifdef CONVERTS_F16
FN float m_copy_sign(float magnitude, float x) {
  return uintBitsToFloat(floatBitsToUint(magnitude) ^ (floatBitsToUint(x) & 0x80000000u));
}
#else
FN float m_copy_sign(float magnitude, float x) {
  return floatBitsToUint(x) >= 0x80000000u ? -magnitude : magnitude;
}
#endif
)";

// One Newton step on the driver's quotient, which may be 2.5 units off. Near the ends of the range
// both operands are scaled first.
inline constexpr std::string_view kDivF32 = R"(
FN float m_div(float a, float b) {
  const uint exponent = (floatBitsToUint(b) >> 23) & 255u;
  const float scale = exponent < 27u ? 1.152921504606847e18 :
                      exponent > 227u ? 8.673617379884035e-19 : 1.0;
  precise const float n = a * scale;
  precise const float d = b * scale;
  precise const float reciprocal = 1.0 / d;
  precise const float near = n * reciprocal;
  precise const float rest = fma(-near, d, n);
  precise const float better = fma(rest, reciprocal, near);
  return abs(near) > 0.0 && abs(near) < M_INF ? better : near;
}
)";

inline constexpr std::string_view kSqrtF32 = R"(
FN float m_sqrt(float x) {
  if (!(x > 0.0)) {
    return x == 0.0 ? x : M_NAN;
  }
  if (!m_is_finite(x)) {
    return x;
  }
  const bool small = x < 7.888609052210118e-31;
  precise const float a = small ? x * 281474976710656.0 : x;
  precise const float near = sqrt(a);
  precise const float rest = fma(-near, near, a);
  precise const float better = near + rest * (0.5 / near);
  return small ? better * 5.9604644775390625e-8 : better;
}
)";

inline constexpr std::string_view kExpF32 = R"(
// e^r for |r| <= 0.35.
FN float m_exp_near(float r) {
  M_EXP_POLYNOMIAL(p, r)
  return p * (r * r) + r + 1.0;
}
// x*2^n in two steps, so that results outside of the normal range come out right.
FN float m_scale(float x, int n) {
  const int half_n = n >> 1;
  precise const float near = x * intBitsToFloat((half_n + 127) << 23);
  precise const float all_of_it = near * intBitsToFloat((n - half_n + 127) << 23);
  return all_of_it;
}
FN float m_exp(float x) {
  const float c = x > 89.0 ? 89.0 : x < -104.0 ? -104.0 : x;
  precise const float shifted = c * 1.44269504088896341 + 12582912.0;
  precise const float n = shifted - 12582912.0;
  precise const float r = (c - n * 0.693359375) - n * -2.12194440e-4;
  const float y = m_scale(m_exp_near(r), floatBitsToInt(shifted) - 0x4b400000);
  return is_nan(x) ? x : y;
}
)";

inline constexpr std::string_view kLogF32 = R"(
FN float m_log(float x) {
  const bool tiny = x < 1.17549435e-38;
  const float normal = tiny ? x * 8388608.0 : x;
  const int centred = floatBitsToInt(normal) - 0x3f3504f3;
  const float e = float((centred >> 23) - (tiny ? 23 : 0));
  precise const float m = intBitsToFloat((centred & 0x007fffff) + 0x3f3504f3) - 1.0;
  const float z = m * m;
  M_LOG_POLYNOMIAL(p, m)
  precise const float y = p * m * z + e * -2.12194440e-4 - 0.5 * z;
  precise const float result = (m + y) + e * 0.693359375;
  return x > 0.0 ? (m_is_finite(x) ? result : x) : x == 0.0 ? -M_INF : M_NAN;
}
)";

// Rounding 1 + x loses a part of x. The logarithm's derivative, 1/(1 + x), times that part corrects
// the result.
inline constexpr std::string_view kLog1pF32 = R"(
FN float m_log1p(float x) {
  precise const float u = 1.0 + x;
  precise const float lost = x - (u - 1.0);
  const float near = m_log(u);
  precise const float better = near + lost / u;
  return u == 1.0 ? x : m_is_finite(better) ? better : near;
}
)";

inline constexpr std::string_view kExpm1F32 = R"(
FN float m_expm1(float x) {
  M_EXP_POLYNOMIAL(p, x)
  return x == 0.0 ? x : abs(x) < 0.346 ? p * (x * x) + x : m_exp(x) - 1.0;
}
)";

// Payne and Hanek reduction: multiplies the 24 bits of a large number by those bits of 2/π that
// determine its quarter turn.
inline constexpr std::string_view kSineF32 = R"(
// x less the nearest multiple of π/2, |x| > 8192; `quadrant` is that multiple, modulo 4.
FN float m_reduce_large(float x, OUT(uint) quadrant) {
  const uint bits = floatBitsToUint(x);
  const uint64_t m = uint64_t((bits & 0x7fffffu) | 0x800000u);
  const int place = int((bits >> 23) & 255u) - 150 - 2 + 32;
  const int word = place >> 5;
  const uint shift = uint(place & 31);
  const uint second = m_pi_pick(word + 1);
  const uint third = m_pi_pick(word + 2);
  const uint64_t high = m * uint64_t(m_pi_bits(m_pi_pick(word), second, shift)) << 32;
  const uint64_t middle = m * uint64_t(m_pi_bits(second, third, shift));
  const uint64_t low = m * uint64_t(m_pi_bits(third, m_pi_pick(word + 3), shift)) >> 32;
  const uint64_t turns = high + middle + low;
  const int64_t rest = int64_t(turns << 2);
  quadrant = uint(turns >> 62) + (rest < 0l ? 1u : 0u);
  const float r = float(rest) * 5.421010862427522e-20 * 1.57079632679489662;
  quadrant = (bits >> 31) != 0u ? 0u - quadrant : quadrant;
  return (bits >> 31) != 0u ? -r : r;
}
FN float m_sine(float x, uint quarter_turns) {
  precise const float shifted = x * 0.636619772367581343 + 12582912.0;
  precise const float n = shifted - 12582912.0;
  precise float r = ((x - n * 1.5703125) - n * 4.837512969970703125e-4) - n * 7.5495336204767e-8;
  r = r - n * 2.5633441515945e-12;
  uint quadrant = floatBitsToUint(shifted);
  if (abs(x) > 8192.0) {
    if (!m_is_finite(x)) {
      return M_NAN;
    }
    r = m_reduce_large(x, quadrant);
  }
  quadrant += quarter_turns;
  const float z = r * r;
  M_SINE_POLYNOMIAL(s, z)
  s = s * z * r + r;
  M_COSINE_POLYNOMIAL(c, z)
  c = c * z * z - 0.5 * z + 1.0;
  const float value = (quadrant & 1u) != 0u ? c : m_copy_sign(abs(s), r);
  return is_nan(x) ? x : uintBitsToFloat(floatBitsToUint(value) ^ ((quadrant & 2u) << 30));
}
FN float m_sin(float x) { return x == 0.0 ? x : m_sine(x, 0u); }
FN float m_cos(float x) { return m_sine(x, 1u); }
)";

inline constexpr std::string_view kTanhF32 = R"(
FN float m_tanh(float x) {
  const float magnitude = abs(x);
  const float z = x * x;
  M_TANH_POLYNOMIAL(p, z)
  const float near = mul_add(p * z, magnitude, magnitude);
  const float bounded = magnitude > 10.0 ? 10.0 : magnitude;
  const float far = 1.0 - 2.0 / (m_exp(bounded + bounded) + 1.0);
  return is_nan(x) ? x : m_copy_sign(magnitude < 0.625 ? near : far, x);
}
)";

// Near 0 an odd polynomial, else 1 - 2^polynomial. There the power is below 0.2, which scales down
// the error of exp2().
inline constexpr std::string_view kErfF32 = R"(
FN float m_erf(float x) {
  const float magnitude = abs(x);
  const float t = magnitude > 4.0 ? 4.0 : magnitude;
  const float s = t * t;
  M_ERF_POLYNOMIAL(near, s)
  near = mul_add(near, t, t);
  float far = mul_add(-2.493748440e-05, t, 5.528365934e-04);
  far = mul_add(far, s, mul_add(-5.603376150e-03, t, 3.499202273e-02));
  far = mul_sub(far, t, 1.540479136e-01);
  far = mul_sub(far, t, 9.158901671e-01);
  far = mul_sub(far, t, 1.857001162e-01);
  far = mul_sub(far, t, 1.442695041e+00 * t);
  far = 1.0 - exp2(far);
  return is_nan(x) ? x : m_copy_sign(t > 0.927734375 ? far : near, x);
}
)";

// Near 0 an odd polynomial; further out that of (x - 1)/(x + 1) or -1/x, beside π/4 or π/2.
inline constexpr std::string_view kAtanF32 = R"(
FN float m_atan(float x) {
  const float magnitude = abs(x);
  const bool is_far = magnitude > 2.41421356;
  const bool is_middle = magnitude > 0.41421356;
  const float dividend = is_far ? -1.0 : magnitude - 1.0;
  const float divisor = is_far ? magnitude : magnitude + 1.0;
  const float base = is_far ? 1.57079632679 : is_middle ? 0.785398163397 : 0.0;
  const float r = is_middle ? dividend / divisor : magnitude;
  const float z = r * r;
  M_ATAN_POLYNOMIAL(p, z)
  const float near = mul_add(p * z, r, r);
  return is_nan(x) ? x : m_copy_sign(base + near, x);
}
)";

// 2^(y·log2 |x|), with the logarithm and the product as sums of two floats. Products of 12-bit
// halves are exact, so fused and unfused fma() give equal results. Special cases are those of C's
// pow.
inline constexpr std::string_view kPowF32 = R"(
FN float m_upper(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0xfffff000u); }
// a·b less `product`, its rounded value.
FN float m_product_rest(float a, float b, float product) {
  const float ah = m_upper(a);
  const float bh = m_upper(b);
  precise const float al = a - ah;
  precise const float bl = b - bh;
  precise const float rest = (((ah * bh - product) + ah * bl) + al * bh) + al * bl;
  return rest;
}
// log2(a) for a > 0, finite, as .x + .y.
FN vec2 m_log2_wide(float a) {
  const bool tiny = a < 1.17549435e-38;
  const float normal = tiny ? a * 8388608.0 : a;
  const int centred = floatBitsToInt(normal) - 0x3f3504f3;
  const float e = float((centred >> 23) - (tiny ? 23 : 0));
  const float m = intBitsToFloat((centred & 0x007fffff) + 0x3f3504f3);
  // s = (m - 1)/(m + 1); ln m = 2/3 s (3 + s^2 + 3/5 s^4 + ...)
  precise const float f = m - 1.0;
  precise const float d = m + 1.0;
  precise const float d_low = m - (d - 1.0);
  precise const float sh = f / d;
  precise const float sd = sh * d;
  precise const float sl = (((f - sd) - m_product_rest(sh, d, sd)) - sh * d_low) / d;
  precise const float zh = sh * sh;
  precise const float zl = m_product_rest(sh, sh, zh) + 2.0 * sh * sl;
  const float r = zh * zh * (0.6 + zh * (0.428571429 + zh * (0.333333333 + zh * 0.272727273)));
  precise const float th = 3.0 + zh;
  precise const float tl = ((zh - (th - 3.0)) + zl) + r;
  precise const float ph = sh * th;
  precise const float pl = m_product_rest(sh, th, ph) + sh * tl + sl * th;
  precise const float lh = ph * 0.9617967009544373;
  precise const float ll = m_product_rest(ph, 0.9617967009544373, lh) + ph * -7.028461650953e-9 +
                           pl * 0.9617967009544373;
  precise const float high = e + lh;
  precise const float low = (e == 0.0 ? 0.0 : lh - (high - e)) + ll;
  return vec2(high, low);
}
FN float m_pow(float x, float y) {
  const float a = abs(x);
  const bool is_inside = a > 0.0 && m_is_finite(a);
  const vec2 l = is_inside ? m_log2_wide(a) : vec2(a == 0.0 ? -M_INF : M_INF, 0.0);
  precise const float product = y * l.x;
  const bool is_far = !(abs(product) < 200.0);
  precise const float t = is_far ? (product > 0.0 ? 200.0 : -200.0) : product;
  precise const float t_low = is_far ? 0.0 : m_product_rest(y, l.x, product) + y * l.y;
  precise const float shifted = t + 12582912.0;
  precise const float n = shifted - 12582912.0;
  precise const float r = ((t - n) + t_low) * 0.69314718056;
  float result = m_scale(m_exp_near(r), floatBitsToInt(shifted) - 0x4b400000);
  const float y_size = abs(y);
  const bool is_integer = y_size >= 8388608.0 || floor(y_size) == y_size;
  const bool is_odd = is_integer && y_size < 16777216.0 && (uint(y_size) & 1u) != 0u;
  const bool is_negative = (floatBitsToUint(x) >> 31) != 0u;
  result = is_negative && is_odd ? -result : result;
  result = is_negative && a > 0.0 && m_is_finite(a) && !is_integer ? M_NAN : result;
  result = is_nan(x) || is_nan(y) ? M_NAN : result;
  result = x == -1.0 && y_size == M_INF ? 1.0 : result;
  return x == 1.0 || y == 0.0 ? 1.0 : result;
}
)";

}  // namespace hearth::detail
