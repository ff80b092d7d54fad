// GLSL text of the elementary functions of double (glsl_math.hpp). Private to its source.
// Immutable. `precise` marks the computation of a rounding error, which compilers must not remove.
// The driver may fuse the steps of polynomials.
// Taylor series on short intervals; all other polynomials were fitted for this file. Also the bits
// of 2/π that sines of large numbers need.
#pragma once

#include <string_view>

namespace hearth::detail {

// Words of 2/π by number, behind one word of zeros: eight words, enough for the largest double.
// Selects choose a word. An indexed array is copied into each calling function. Drivers in software
// lower each access to 38 branches, and a sine reads six words. With an array, a kernel of two
// sines took 12 s to compile.
inline constexpr std::string_view kTwoOverPi = R"(
#define M_PICK(a, b, c, d, e, f, g, h) \
  mix(mix(mix(a, b, odd), mix(c, d, odd), two), mix(mix(e, f, odd), mix(g, h, odd), two), four)
FN uint m_pi_pick(int word) {
  const bool odd = (word & 1) != 0;
  const bool two = (word & 2) != 0;
  const bool four = (word & 4) != 0;
  return M_PICK(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
               0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
}
// 32 bits of two words, from bit `shift` below 32 on.
FN uint m_pi_bits(uint word, uint next, uint shift) {
  return (word << shift) | ((next >> 1) >> (31u - shift));
}
)";

inline constexpr std::string_view kTwoOverPiF64 = R"(
FN uint m_pi_pick_all(int word) {
  const bool odd = (word & 1) != 0;
  const bool two = (word & 2) != 0;
  const bool four = (word & 4) != 0;
  uint bits = m_pi_pick(word);
  bits = mix(bits, M_PICK(0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau,
               0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u), word >= 8);
  bits = mix(bits, M_PICK(0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u,
               0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu), word >= 16);
  bits = mix(bits, M_PICK(0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu,
               0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u), word >= 24);
  bits = mix(bits, M_PICK(0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u,
               0x1f8d5d08u, 0x56033046u, 0u, 0u), word >= 32);
  return word < 0 ? 0u : bits;
}
)";

inline constexpr std::string_view kBasicF64 = R"(
#define M_INF_D packDouble2x32(uvec2(0u, 0x7ff00000u))
#define M_NAN_D packDouble2x32(uvec2(0u, 0x7ff80000u))
FN bool m_is_finite(double x) { return (unpackDouble2x32(x).y & 0x7ff00000u) != 0x7ff00000u; }
FN double m_copy_sign(double magnitude, double x) {
  const uint difference = unpackDouble2x32(magnitude).y ^ unpackDouble2x32(x).y;
  return difference >= 0x80000000u ? -magnitude : magnitude;
}
)";

inline constexpr std::string_view kDivF64 = R"(
FN double m_div(double a, double b) {
  const uint exponent = (unpackDouble2x32(b).y >> 20) & 2047u;
  const double scale = exponent < 200u ? 1.3407807929942597e154lf :
                       exponent > 1846u ? 7.458340731200207e-155lf : 1.0lf;
  precise const double n = a * scale;
  precise const double d = b * scale;
  precise const double near = n / d;
  precise const double rest = fma(-near, d, n);
  precise const double better = near + rest / d;
  return abs(near) > 0.0lf && abs(near) < M_INF_D ? better : near;
}
)";

inline constexpr std::string_view kSqrtF64 = R"(
FN double m_sqrt(double x) {
  if (!(x > 0.0lf)) {
    return x == 0.0lf ? x : M_NAN_D;
  }
  if (!m_is_finite(x)) {
    return x;
  }
  const bool small = x < 4.909093465297727e-91lf;
  precise const double a = small ? x * 2.037035976334486e90lf : x;
  precise const double near = sqrt(a);
  precise const double rest = fma(-near, near, a);
  precise const double better = near + rest * (0.5lf / near);
  return small ? better * 7.006492321624085e-46lf : better;
}
)";

inline constexpr std::string_view kExpF64 = R"(
// (e^r - 1 - r)/r^2 for |r| <= 0.35.
FN double m_exp_tail(double r) {
  double p = 1.6059043836821613e-10lf;
  p = p * r + 2.08767569878681e-9lf;
  p = p * r + 2.505210838544172e-8lf;
  p = p * r + 2.755731922398589e-7lf;
  p = p * r + 2.7557319223985893e-6lf;
  p = p * r + 2.48015873015873e-5lf;
  p = p * r + 1.984126984126984e-4lf;
  p = p * r + 1.388888888888889e-3lf;
  p = p * r + 8.333333333333333e-3lf;
  p = p * r + 4.1666666666666664e-2lf;
  p = p * r + 1.6666666666666666e-1lf;
  return p * r + 0.5lf;
}
FN double m_exp_near(double r) { return m_exp_tail(r) * (r * r) + r + 1.0lf; }
FN double m_scale(double x, int n) {
  const int half_n = n >> 1;
  precise const double near = x * packDouble2x32(uvec2(0u, uint(half_n + 1023) << 20));
  precise const double all_of_it = near * packDouble2x32(uvec2(0u, uint(n - half_n + 1023) << 20));
  return all_of_it;
}
FN double m_exp(double x) {
  const double c = x > 710.0lf ? 710.0lf : x < -746.0lf ? -746.0lf : x;
  precise const double shifted = c * 1.4426950408889634lf + 6755399441055744.0lf;
  precise const double n = shifted - 6755399441055744.0lf;
  precise const double r = (c - n * 0.6931471804855391lf) - n * 7.440617110012397e-11lf;
  const double y = m_scale(m_exp_near(r), int(n));
  return is_nan(x) ? x : y;
}
)";

inline constexpr std::string_view kLogF64 = R"(
FN double m_log(double x) {
  const bool tiny = x < 2.2250738585072014e-308lf;
  const double normal = tiny ? x * 18014398509481984.0lf : x;
  const uvec2 words = unpackDouble2x32(normal);
  const int centred = int(words.y) - 0x3fe6a09e;
  const double e = double((centred >> 20) - (tiny ? 54 : 0));
  const double m = packDouble2x32(uvec2(words.x, uint((centred & 0xfffff) + 0x3fe6a09e)));
  precise const double f = m - 1.0lf;
  precise const double s = f / (2.0lf + f);
  const double z = s * s;
  double p = 0.047619047619047616lf;
  p = p * z + 0.05263157894736842lf;
  p = p * z + 0.058823529411764705lf;
  p = p * z + 0.06666666666666667lf;
  p = p * z + 0.07692307692307693lf;
  p = p * z + 0.09090909090909091lf;
  p = p * z + 0.1111111111111111lf;
  p = p * z + 0.14285714285714285lf;
  p = p * z + 0.2lf;
  p = p * z + 0.3333333333333333lf;
  precise const double rest = 2.0lf * s * z * p + e * 7.440617110012397e-11lf;
  precise const double result = (2.0lf * s + rest) + e * 0.6931471804855391lf;
  return x > 0.0lf ? (m_is_finite(x) ? result : x) : x == 0.0lf ? -M_INF_D : M_NAN_D;
}
)";

inline constexpr std::string_view kLog1pF64 = R"(
FN double m_log1p(double x) {
  precise const double u = 1.0lf + x;
  precise const double lost = x - (u - 1.0lf);
  const double near = m_log(u);
  precise const double better = near + lost / u;
  return u == 1.0lf ? x : m_is_finite(better) ? better : near;
}
)";

inline constexpr std::string_view kExpm1F64 = R"(
FN double m_expm1(double x) {
  return x == 0.0lf ? x : abs(x) < 0.346lf ? m_exp_tail(x) * (x * x) + x : m_exp(x) - 1.0lf;
}
)";

inline constexpr std::string_view kSineF64 = R"(
// As for float, with 192 bits of the product: the rest of a double may begin with 62 zeros.
FN double m_reduce_large(double x, OUT(uint) quadrant) {
  const uvec2 words = unpackDouble2x32(x);
  const uint64_t m0 = uint64_t(words.x);
  const uint64_t m1 = uint64_t((words.y & 0xfffffu) | 0x100000u);
  const int place = int((words.y >> 20) & 2047u) - 1075 - 2 + 32;
  const uint shift = uint(place & 31);
  uint next = m_pi_pick_all((place >> 5) + 6);
  uint result[5];  // the words of the product, the highest first
  uint64_t carry = 0ul;
  uint64_t before = 0ul;  // the word below, times the upper half
  for (int i = 5; i >= 0; --i) {
    const uint here = m_pi_pick_all((place >> 5) + i);
    const uint64_t word = uint64_t(m_pi_bits(here, next, shift));
    next = here;
    const uint64_t low = m0 * word;
    const uint64_t sum = (low & 0xfffffffful) + (before & 0xfffffffful) + carry;
    UNROLLED for (int k = 4; k > 0; --k) {
      result[k] = result[k - 1];
    }
    result[0] = uint(sum);
    carry = (sum >> 32) + (low >> 32) + (before >> 32);
    before = m1 * word;
  }
  const uint64_t high = (uint64_t(result[0]) << 32) | uint64_t(result[1]);
  const uint64_t low = (uint64_t(result[2]) << 32) | uint64_t(result[3]);
  uint64_t rest_high = (high << 2) | (low >> 62);
  uint64_t rest_low = (low << 2) | uint64_t(result[4] >> 30);
  const bool is_above = (rest_high >> 63) != 0ul;
  quadrant = uint(high >> 62) + (is_above ? 1u : 0u);
  if (is_above) {
    rest_low = ~rest_low + 1ul;
    rest_high = ~rest_high + (rest_low == 0ul ? 1ul : 0ul);
  }
  const double quarters = double(rest_high) * 5.421010862427522e-20lf +
                          double(rest_low) * 2.938735877055719e-39lf;
  const bool is_negative = (words.y >> 31) != 0u;
  quadrant = is_negative ? 0u - quadrant : quadrant;
  const double r = quarters * 1.5707963267948966lf;
  return is_negative != is_above ? -r : r;
}
FN double m_sine(double x, uint quarter_turns) {
  precise const double shifted = x * 0.6366197723675814lf + 6755399441055744.0lf;
  precise const double n = shifted - 6755399441055744.0lf;
  precise double r = ((x - n * 1.5707963267341256lf) - n * 6.077100506303966e-11lf) -
                     n * 2.0222662487959507e-21lf;
  uint quadrant = unpackDouble2x32(shifted).x;
  if (abs(x) > 1000000.0lf) {
    if (!m_is_finite(x)) {
      return M_NAN_D;
    }
    r = m_reduce_large(x, quadrant);
  }
  quadrant += quarter_turns;
  const double z = r * r;
  double s = 2.8114572543455206e-15lf;
  s = s * z - 7.647163731819816e-13lf;
  s = s * z + 1.6059043836821613e-10lf;
  s = s * z - 2.505210838544172e-8lf;
  s = s * z + 2.7557319223985893e-6lf;
  s = s * z - 1.984126984126984e-4lf;
  s = s * z + 8.333333333333333e-3lf;
  s = s * z - 1.6666666666666666e-1lf;
  s = s * z * r + r;
  double c = -1.5619206968586225e-16lf;
  c = c * z + 4.779477332387385e-14lf;
  c = c * z - 1.1470745597729725e-11lf;
  c = c * z + 2.08767569878681e-9lf;
  c = c * z - 2.755731922398589e-7lf;
  c = c * z + 2.48015873015873e-5lf;
  c = c * z - 1.388888888888889e-3lf;
  c = c * z + 4.1666666666666664e-2lf;
  c = c * z * z - 0.5lf * z + 1.0lf;
  const double value = (quadrant & 1u) != 0u ? c : m_copy_sign(s, r);
  return is_nan(x) ? x : (quadrant & 2u) != 0u ? -value : value;
}
FN double m_sin(double x) { return x == 0.0lf ? x : m_sine(x, 0u); }
FN double m_cos(double x) { return m_sine(x, 1u); }
)";

inline constexpr std::string_view kTanhF64 = R"(
FN double m_tanh(double x) {
  const double magnitude = abs(x);
  const double e = m_expm1(magnitude > 20.0lf ? 40.0lf : magnitude + magnitude);
  return is_nan(x) ? x : m_copy_sign(e / (e + 2.0lf), x);
}
)";

// Fitted by Chebyshev points in 60 digits: erf(x)/x in x^2 up to 1, and erfc(x)·exp(x^2) in (x -
// 3)/(x + 3) from 1 to 6. The error is below 2^-55.
inline constexpr std::string_view kErfF64 = R"(
FN double m_erf(double x) {
  const double magnitude = abs(x);
  if (magnitude <= 1.0lf) {
    const double z = x * x;
    double p = 5.9571761477489114e-11lf;
    p = p * z - 1.137284885679167367e-9lf;
    p = p * z + 1.4659775274047435814e-8lf;
    p = p * z - 1.6350312701054695011e-7lf;
    p = p * z + 1.6461000484121368033e-6lf;
    p = p * z - 1.4925595266831181565e-5lf;
    p = p * z + 1.2055331111642710923e-4lf;
    p = p * z - 8.5483269808337899052e-4lf;
    p = p * z + 5.2239776248180144673e-3lf;
    p = p * z - 2.6866170645076793248e-2lf;
    p = p * z + 0.11283791670954878666lf;
    p = p * z - 0.37612638903183748056lf;
    p = p * z + 0.12837916709551257390lf;
    return x * p + x;
  }
  const double t = magnitude > 6.0lf ? 6.0lf : magnitude;
  const double u = (t - 3.0lf) / (t + 3.0lf);
  double q = 3.3813551420429037682e-9lf;
  q = q * u + 1.2755818949624479228e-6lf;
  q = q * u + 2.0135111426447427972e-6lf;
  q = q * u - 8.009780939076079326e-6lf;
  q = q * u - 1.2845780030775906801e-5lf;
  q = q * u + 6.406279226046039164e-5lf;
  q = q * u + 4.5254345589910084013e-5lf;
  q = q * u - 5.9706249649245444261e-4lf;
  q = q * u + 7.0774646669414250803e-4lf;
  q = q * u + 4.2691363569612252503e-3lf;
  q = q * u - 2.4392499318915004726e-2lf;
  q = q * u + 7.1665837197473070399e-2lf;
  q = q * u - 0.15011593650077898545lf;
  q = q * u + 0.245603801712334874lf;
  q = q * u - 0.32623356004303721247lf;
  q = q * u + 0.17900115118138994522lf;
  return is_nan(x) ? x : m_copy_sign(1.0lf - m_exp(-t * t) * q, x);
}
)";

// As of float, with a quotient of polynomials up to 0.66 and the last bits of π/4 and π/2.
inline constexpr std::string_view kAtanF64 = R"(
FN double m_atan(double x) {
  const double magnitude = abs(x);
  const bool is_far = magnitude > 2.414213562373095lf;
  const bool is_middle = magnitude > 0.66lf;
  const double dividend = is_far ? -1.0lf : magnitude - 1.0lf;
  const double divisor = is_far ? magnitude : magnitude + 1.0lf;
  const double base = is_far ? 1.5707963267948966lf : is_middle ? 0.7853981633974483lf : 0.0lf;
  const double rest =
      is_far ? 6.123233995736766e-17lf : is_middle ? 3.061616997868383e-17lf : 0.0lf;
  const double r = is_middle ? dividend / divisor : magnitude;
  const double z = r * r;
  M_ATAN_DIVIDEND(p, z)
  M_ATAN_DIVISOR(q, z)
  const double near = r * (z * p / q) + r;
  return is_nan(x) ? x : m_copy_sign(base + (near + rest), x);
}
)";

inline constexpr std::string_view kPowF64 = R"(
FN double m_upper(double x) {
  const uvec2 words = unpackDouble2x32(x);
  return packDouble2x32(uvec2(words.x & 0xf8000000u, words.y));
}
FN double m_product_rest(double a, double b, double product) {
  const double ah = m_upper(a);
  const double bh = m_upper(b);
  precise const double al = a - ah;
  precise const double bl = b - bh;
  precise const double rest = (((ah * bh - product) + ah * bl) + al * bh) + al * bl;
  return rest;
}
FN dvec2 m_log2_wide(double a) {
  const bool tiny = a < 2.2250738585072014e-308lf;
  const double normal = tiny ? a * 18014398509481984.0lf : a;
  const uvec2 words = unpackDouble2x32(normal);
  const int centred = int(words.y) - 0x3fe6a09e;
  const double e = double((centred >> 20) - (tiny ? 54 : 0));
  const double m = packDouble2x32(uvec2(words.x, uint((centred & 0xfffff) + 0x3fe6a09e)));
  precise const double f = m - 1.0lf;
  precise const double d = m + 1.0lf;
  precise const double d_low = m - (d - 1.0lf);
  precise const double sh = f / d;
  precise const double sd = sh * d;
  precise const double sl = (((f - sd) - m_product_rest(sh, d, sd)) - sh * d_low) / d;
  precise const double zh = sh * sh;
  precise const double zl = m_product_rest(sh, sh, zh) + 2.0lf * sh * sl;
  double p = 0.14285714285714285lf;
  p = p * zh + 0.15789473684210525lf;
  p = p * zh + 0.17647058823529413lf;
  p = p * zh + 0.2lf;
  p = p * zh + 0.23076923076923078lf;
  p = p * zh + 0.2727272727272727lf;
  p = p * zh + 0.3333333333333333lf;
  p = p * zh + 0.42857142857142855lf;
  p = p * zh + 0.6lf;
  const double r = zh * zh * p;
  precise const double th = 3.0lf + zh;
  precise const double tl = ((zh - (th - 3.0lf)) + zl) + r;
  precise const double ph = sh * th;
  precise const double pl = m_product_rest(sh, th, ph) + sh * tl + sl * th;
  precise const double lh = ph * 0.9617966939259756lf;
  precise const double ll = m_product_rest(ph, 0.9617966939259756lf, lh) +
                            ph * 5.057761664812591e-17lf + pl * 0.9617966939259756lf;
  precise const double high = e + lh;
  precise const double low = (e == 0.0lf ? 0.0lf : lh - (high - e)) + ll;
  return dvec2(high, low);
}
FN double m_pow(double x, double y) {
  const double a = abs(x);
  const bool is_inside = a > 0.0lf && m_is_finite(a);
  const dvec2 l = is_inside ? m_log2_wide(a) : dvec2(a == 0.0lf ? -M_INF_D : M_INF_D, 0.0lf);
  precise const double product = y * l.x;
  const bool is_far = !(abs(product) < 1200.0lf);
  precise const double t = is_far ? (product > 0.0lf ? 1200.0lf : -1200.0lf) : product;
  precise const double t_low = is_far ? 0.0lf : m_product_rest(y, l.x, product) + y * l.y;
  precise const double shifted = t + 6755399441055744.0lf;
  precise const double n = shifted - 6755399441055744.0lf;
  precise const double r = ((t - n) + t_low) * 0.6931471805599453lf;
  double result = m_scale(m_exp_near(r), int(n));
  const double y_size = abs(y);
  const bool is_integer = y_size >= 4503599627370496.0lf || floor(y_size) == y_size;
  const double y_half = y_size * 0.5lf;
  const bool is_odd = is_integer && y_size < 9007199254740992.0lf && floor(y_half) != y_half;
  const bool is_negative = (unpackDouble2x32(x).y >> 31) != 0u;
  result = is_negative && is_odd ? -result : result;
  result = is_negative && is_inside && !is_integer ? M_NAN_D : result;
  result = is_nan(x) || is_nan(y) ? M_NAN_D : result;
  result = x == -1.0lf && y_size == M_INF_D ? 1.0lf : result;
  return x == 1.0lf || y == 0.0lf ? 1.0lf : result;
}
)";

}  // namespace hearth::detail
