// Elementary functions in f32, without branches or calls, so that the compiler vectorises a loop
// over them. Private to sources that are compiled per instruction set. Threads: any; pure
// functions. Accuracy: at most 4 units in the last place from the exact value, over all finite
// floats (tests/backends/cpu_unary_test.cpp). NaN gives NaN, infinities give their limits, results
// below the normal range round gradually.
#pragma once

#include <hearth/backends/polynomials.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace hearth::cpu::HEARTH_CPU_ISA {

/// Adding and subtracting 1.5·2^23 rounds a float of magnitude below 2^22 to the nearest integer.
/// The sum holds that integer in its low bits.
inline constexpr float kRounder = 12582912.0F;
inline constexpr std::int32_t kRounderBits = 0x4B400000;

[[gnu::always_inline]] inline std::int32_t to_bits(float x) noexcept {
  return __builtin_bit_cast(std::int32_t, x);
}
[[gnu::always_inline]] inline float from_bits(std::int32_t bits) noexcept {
  return __builtin_bit_cast(float, bits);
}
/// Returns 2^n for -126 ≤ n ≤ 127.
[[gnu::always_inline]] inline float power_of_two(std::int32_t n) noexcept {
  return from_bits((n + 127) << 23);
}

/// The value at x of a polynomial of backends/polynomials.hpp.
template <std::size_t count>
[[gnu::always_inline]] inline float horner(const float (&coefficients)[count], float x) noexcept {
  float p = coefficients[0];
  for (std::size_t i = 1; i < count; ++i) {
    p = p * x + coefficients[i];
  }
  return p;
}

/// e^x = mantissa·2^exponent.
struct ExpParts {
  float mantissa;
  std::int32_t exponent;
};

/// Paper: Moshier, Cephes mathematical library, expf.
[[gnu::always_inline]] inline ExpParts exp_parts_f32(float x) noexcept {
  const float shifted = x * 1.44269504088896341F + kRounder;
  const float n = shifted - kRounder;
  float r = x - n * 0.693359375F;
  r = r - n * -2.12194440e-4F;
  float p = horner(hearth::detail::kExpPolynomial, r);
  p = p * (r * r) + r + 1.0F;
  return {p,
          static_cast<std::int32_t>(static_cast<std::uint32_t>(to_bits(shifted)) -
                                    static_cast<std::uint32_t>(kRounderBits))};
}

[[gnu::always_inline]] inline float exp_f32(float x) noexcept {
  float c = x > 89.0F ? 89.0F : x;
  c = c < -104.0F ? -104.0F : c;
  const ExpParts parts = exp_parts_f32(c);
  // In two steps, for correct results below 2^-126 and above 2^127.
  const std::int32_t half = parts.exponent >> 1;
  return parts.mantissa * power_of_two(half) * power_of_two(parts.exponent - half);
}

/// Returns exp_f32(x) bit for bit for -87 ≤ x ≤ 87, and NaN for NaN.
[[gnu::always_inline]] inline float near_exp_f32(float x) noexcept {
  const ExpParts parts = exp_parts_f32(x);
  // The exponent of NaN is arbitrary.
  return parts.mantissa * from_bits(static_cast<std::int32_t>(
                              (static_cast<std::uint32_t>(parts.exponent) + 127U) << 23U));
}

/// Paper: Moshier, Cephes mathematical library, logf.
[[gnu::always_inline]] inline float log_f32(float x) noexcept {
  const bool tiny = x < 1.17549435e-38F;
  const float normal = tiny ? x * 8388608.0F : x;
  // Centred so that the mantissa lies in [sqrt(1/2), sqrt(2)). The bits of negative numbers wrap;
  // their result is not used.
  const auto bits = static_cast<std::uint32_t>(to_bits(normal));
  const auto centred = static_cast<std::int32_t>(bits - 0x3F3504F3U);
  const std::int32_t exponent = (centred >> 23) - (tiny ? 23 : 0);
  const float m = from_bits((centred & 0x007FFFFF) + 0x3F3504F3) - 1.0F;
  const float e = static_cast<float>(exponent);
  const float z = m * m;
  const float p = horner(hearth::detail::kLogPolynomial, m);
  float y = p * m * z;
  y = y + e * -2.12194440e-4F;
  y = y - 0.5F * z;
  float result = m + y;
  result = result + e * 0.693359375F;
  result = x == __builtin_inff() ? x : result;
  result = x == 0.0F ? -__builtin_inff() : result;
  return x >= 0.0F ? result : __builtin_nanf("");
}

/// Paper: Moshier, Cephes mathematical library, tanhf.
[[gnu::always_inline]] inline float tanh_f32(float x) noexcept {
  const float magnitude = __builtin_fabsf(x);
  const float z = x * x;
  const float p = horner(hearth::detail::kTanhPolynomial, z);
  const float near = p * z * x + x;
  const float far = 1.0F - 2.0F / (exp_f32(magnitude + magnitude) + 1.0F);
  return __builtin_copysignf(magnitude < 0.625F ? near : far, x);  // -0 stays -0
}

[[gnu::always_inline]] inline float sigmoid_f32(float x) noexcept {
  return 1.0F / (1.0F + exp_f32(-x));
}

/// Near 0 an odd polynomial, else 1 - exp(polynomial).
[[gnu::always_inline]] inline float erf_f32(float x) noexcept {
  const float magnitude = __builtin_fabsf(x);
  const float t = magnitude > 4.0F ? 4.0F : magnitude;  // erf(4) rounds to 1
  const float s = t * t;
  float far = -1.72853470e-5F * t + 3.83197126e-4F;
  const float far_low = -3.88396438e-3F * t + 2.42546219e-2F;
  far = far * s + far_low;
  far = far * t - 1.06777877e-1F;
  far = far * t - 6.34846687e-1F;
  far = far * t - 1.28717512e-1F;
  far = far * t - t;
  far = __builtin_copysignf(1.0F - near_exp_f32(far), x);
  float near = horner(hearth::detail::kErfPolynomial, s);
  near = near * x + x;
  return magnitude > 0.927734375F ? far : near;
}

/// Near 0 an odd polynomial; further out that of (x - 1)/(x + 1) or -1/x, beside π/4 or π/2.
/// Paper: Moshier, Cephes mathematical library, atanf.
[[gnu::always_inline]] inline float atan_f32(float x) noexcept {
  const float magnitude = __builtin_fabsf(x);
  const bool is_far = magnitude > 2.41421356F;  // tan(3π/8)
  const bool is_middle = magnitude > 0.41421356F;
  const float dividend = is_far ? -1.0F : is_middle ? magnitude - 1.0F : magnitude;
  const float divisor = is_far ? magnitude : is_middle ? magnitude + 1.0F : 1.0F;
  const float base = is_far ? 1.57079632679F : is_middle ? 0.785398163397F : 0.0F;
  const float r = dividend / divisor;
  const float z = r * r;
  const float near = horner(hearth::detail::kAtanPolynomial, z) * z * r + r;
  return __builtin_copysignf(base + near, x);  // -0 stays -0
}

/// Beyond this magnitude sine_f32 loses accuracy.
inline constexpr float kSineLimit = 8192.0F;

/// sin(r + quadrant·π/2) for |r| ≤ π/4. Paper: Moshier, Cephes mathematical library, sinf.
[[gnu::always_inline]] inline float reduced_sine_f32(float r, std::int32_t quadrant) noexcept {
  const float z = r * r;
  float s = horner(hearth::detail::kSinePolynomial, z);
  s = __builtin_copysignf(s * z * r + r, r);  // -0 stays -0
  float c = horner(hearth::detail::kCosinePolynomial, z);
  c = c * z * z - 0.5F * z + 1.0F;
  const float value = (quadrant & 1) != 0 ? c : s;
  return from_bits(to_bits(value) ^ ((quadrant & 2) << 30));
}

/// Returns sin(x + quarter_turns·π/2) for |x| ≤ kSineLimit; the result for others is arbitrary.
[[gnu::always_inline]] inline float sine_f32(float x, std::int32_t quarter_turns) noexcept {
  const float shifted = x * 0.636619772367581343F + kRounder;
  const float n = shifted - kRounder;
  float r = x - n * 1.5703125F;
  r = r - n * 4.837512969970703125e-4F;
  r = r - n * 7.54978995489188216e-8F;
  // Unsigned: a NaN may have any bits.
  const auto quadrant = static_cast<std::uint32_t>(to_bits(shifted));
  return reduced_sine_f32(
      r, static_cast<std::int32_t>(quadrant + static_cast<std::uint32_t>(quarter_turns)));
}

/// Returns sin(2π·turns + quarter_turns·π/2) for turns in [0, 1), without a rounded multiple of π.
[[gnu::always_inline]] inline float turned_sine_f32(float turns,
                                                    std::int32_t quarter_turns) noexcept {
  const float quarters = 4.0F * turns;
  const float shifted = quarters + kRounder;
  const float rest = quarters - (shifted - kRounder);
  return reduced_sine_f32(rest * 1.57079632679489662F, to_bits(shifted) + quarter_turns);
}

/// Returns x^y by base-2 logarithm and exponential in f64, with the special cases of C's pow.
[[gnu::always_inline]] inline float pow_f32(float x, float y) noexcept {
  const double a = __builtin_fabs(static_cast<double>(x));  // never subnormal in f64
  const double b = static_cast<double>(y);
  const std::int64_t centred = __builtin_bit_cast(std::int64_t, a) - 0x3FE6A09E667F3BCD;
  // The exponent as a double: 2^52 + 2^51 plus an integer is exact, and the low bits hold the
  // integer.
  const std::int64_t exponent_bits = ((centred >> 32) + (std::int64_t{1} << 31)) >> 20;
  const double exponent =
      __builtin_bit_cast(double, exponent_bits + 0x4330000000000000) - 4503599627372544.0;
  const double m = __builtin_bit_cast(double, (centred & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  p = p * z + 1.0;
  double log2 = p * s * 2.88539008177792681472 + exponent;
  log2 = a == 0.0 ? -__builtin_inf() : log2;
  log2 = a == __builtin_inf() || a != a ? a : log2;
  double t = b * log2;
  t = t > 200.0 ? 200.0 : t;
  t = t < -200.0 ? -200.0 : t;
  constexpr double kWideRounder = 6755399441055744.0;  // 1.5·2^52
  const double shifted = t + kWideRounder;
  const double r = t - (shifted - kWideRounder);
  double q = 1.32154867901443e-6;
  q = q * r + 1.52527338040598e-5;
  q = q * r + 1.54035303933816e-4;
  q = q * r + 1.33335581464284e-3;
  q = q * r + 9.61812910762848e-3;
  q = q * r + 5.55041086648216e-2;
  q = q * r + 2.40226506959101e-1;
  q = q * r + 6.93147180559945e-1;
  q = q * r + 1.0;
  const std::int64_t scale_bits = (__builtin_bit_cast(std::int64_t, shifted) + 1023) << 52;
  float result = static_cast<float>(q * __builtin_bit_cast(double, scale_bits));
  result = t != t ? __builtin_nanf("") : result;
  const float y_half = y * 0.5F;
  const bool is_integer = __builtin_fabsf(y) >= 8388608.0F ||
                          __builtin_fabsf(y) + 8388608.0F - 8388608.0F == __builtin_fabsf(y);
  const bool is_even =
      __builtin_fabsf(y) >= 16777216.0F ||
      (is_integer && __builtin_fabsf(y_half) + 8388608.0F - 8388608.0F == __builtin_fabsf(y_half));
  const bool is_negative = to_bits(x) < 0;
  result = is_negative && is_integer && !is_even ? -result : result;
  result = x < 0.0F && a != __builtin_inf() && !is_integer ? __builtin_nanf("") : result;
  result = x == -1.0F && __builtin_fabsf(y) == __builtin_inff() ? 1.0F : result;
  return x == 1.0F || y == 0.0F ? 1.0F : result;
}

}  // namespace hearth::cpu::HEARTH_CPU_ISA
