// Functions of vector_math.hpp on sixteen floats at once, with AVX-512 instructions that compilers
// do not derive from a loop. These are tables of sixteen numbers in one register, and
// multiplication by a power of two. Private to sources that are compiled per instruction set, empty
// below AVX-512. Threads: any; pure functions. Accuracy: that of vector_math.hpp.
#pragma once

#ifdef __AVX512F__

#include "vector_math.hpp"

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

namespace hearth::cpu::HEARTH_CPU_ISA {

/// to[i] = function(from[i]) for a function of sixteen independent lanes.
template <class Function>
void map_lanes(float* to, const float* from, std::int64_t count, Function function) {
  constexpr std::int64_t kLanes = 16;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    _mm512_storeu_ps(to + i, function(_mm512_loadu_ps(from + i)));
  }
  if (i < count) {
    const auto rest = static_cast<__mmask16>((1U << static_cast<unsigned>(count - i)) - 1U);
    _mm512_mask_storeu_ps(to + i, rest, function(_mm512_maskz_loadu_ps(rest, from + i)));
  }
}

// If an operand is NaN, the result is the second one, so NaN is kept.
[[gnu::always_inline]] inline __m512 at_most(float high, __m512 x) noexcept {
  return _mm512_maskz_min_ps(0xFFFF, _mm512_set1_ps(high), x);
}
[[gnu::always_inline]] inline __m512 at_least(float low, __m512 x) noexcept {
  return _mm512_maskz_max_ps(0xFFFF, _mm512_set1_ps(low), x);
}

/// Returns the bits of horner().
template <std::size_t count>
[[gnu::always_inline]] inline __m512 horner_lanes(const float (&coefficients)[count],
                                                  __m512 x) noexcept {
  __m512 p = _mm512_set1_ps(coefficients[0]);
  for (std::size_t i = 1; i < count; ++i) {
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(coefficients[i]));
  }
  return p;
}

/// Returns the bits of exp_f32.
[[gnu::always_inline]] inline __m512 exp_lanes(__m512 x) noexcept {
  const __m512 c = at_least(-104.0F, at_most(89.0F, x));
  const __m512 rounder = _mm512_set1_ps(kRounder);
  const __m512 shifted = _mm512_fmadd_ps(c, _mm512_set1_ps(1.44269504088896341F), rounder);
  const __m512 n = shifted - rounder;
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), c);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
  const __m512 p = _mm512_fmadd_ps(horner_lanes(hearth::detail::kExpPolynomial, r), r * r, r);
  return _mm512_scalef_ps(p + _mm512_set1_ps(1.0F), n);
}

/// erf(x) = sum of c[k][i]·u^k for |x| = i·kErfStep + u with |u| ≤ kErfStep / 2, minimax in each of
/// sixteen intervals. The first interval, whose polynomial is odd, minimises the relative error,
/// the others the absolute one. |x| is clamped to 4, where erf rounds to 1.
inline constexpr float kErfStepsPerUnit = 3.75F;
inline constexpr float kErfStep = 1.0F / kErfStepsPerUnit;
alignas(64) inline constexpr float kErfTable[7][16] = {{0,
                                                        2.9391828e-01F,
                                                        5.4929924e-01F,
                                                        7.42101e-01F,
                                                        8.68572e-01F,
                                                        9.4065356e-01F,
                                                        9.763484e-01F,
                                                        9.9170613e-01F,
                                                        9.97447e-01F,
                                                        9.993115e-01F,
                                                        9.998376e-01F,
                                                        9.999665e-01F,
                                                        9.99994e-01F,
                                                        9.9999905e-01F,
                                                        9.999999e-01F,
                                                        1.0e+00F},
                                                       {1.1283791e+00F,
                                                        1.0509254e+00F,
                                                        8.4902877e-01F,
                                                        5.949858e-01F,
                                                        3.6167994e-01F,
                                                        1.9071107e-01F,
                                                        8.722903e-02F,
                                                        3.4608267e-02F,
                                                        1.1910565e-02F,
                                                        3.5556466e-03F,
                                                        9.207434e-04F,
                                                        2.0682e-04F,
                                                        4.029772e-05F,
                                                        6.8108707e-06F,
                                                        9.985258e-07F,
                                                        1.2698452e-07F},
                                                       {0,
                                                        -2.8024676e-01F,
                                                        -4.5281532e-01F,
                                                        -4.7598863e-01F,
                                                        -3.8579196e-01F,
                                                        -2.5428143e-01F,
                                                        -1.3956647e-01F,
                                                        -6.460211e-02F,
                                                        -2.5409207e-02F,
                                                        -8.533551e-03F,
                                                        -2.4553149e-03F,
                                                        -6.066715e-04F,
                                                        -1.2895251e-04F,
                                                        -2.3610959e-05F,
                                                        -3.7278153e-06F,
                                                        -5.0793517e-07F},
                                                       {-3.761216e-01F,
                                                        -3.0048272e-01F,
                                                        -1.22010745e-01F,
                                                        5.5526786e-02F,
                                                        1.5377755e-01F,
                                                        1.6245757e-01F,
                                                        1.1979622e-01F,
                                                        6.885904e-02F,
                                                        3.2167852e-02F,
                                                        1.2468407e-02F,
                                                        4.0579014e-03F,
                                                        1.1173105e-03F,
                                                        2.616086e-04F,
                                                        5.227807e-05F,
                                                        8.94021e-06F,
                                                        1.3110797e-06F},
                                                       {0,
                                                        1.3347536e-01F,
                                                        1.834693e-01F,
                                                        1.3644977e-01F,
                                                        4.6583682e-02F,
                                                        -2.3542482e-02F,
                                                        -4.9313027e-02F,
                                                        -4.2733822e-02F,
                                                        -2.584281e-02F,
                                                        -1.2117912e-02F,
                                                        -4.5923414e-03F,
                                                        -1.4366161e-03F,
                                                        -3.756329e-04F,
                                                        -8.275775e-05F,
                                                        -1.5448859e-05F,
                                                        -2.4534506e-06F},
                                                       {1.1212305e-01F,
                                                        7.544709e-02F,
                                                        -2.2916133e-03F,
                                                        -5.9734024e-02F,
                                                        -6.5624624e-02F,
                                                        -3.6176614e-02F,
                                                        -4.5648115e-03F,
                                                        1.1093813e-02F,
                                                        1.2346112e-02F,
                                                        7.899454e-03F,
                                                        3.7022955e-03F,
                                                        1.364947e-03F,
                                                        4.0878166e-04F,
                                                        1.0122692e-04F,
                                                        2.0956308e-05F,
                                                        3.6539757e-06F},
                                                       {0,
                                                        -4.194111e-02F,
                                                        -4.8103385e-02F,
                                                        -2.027781e-02F,
                                                        1.0822759e-02F,
                                                        2.2178587e-02F,
                                                        1.5448594e-02F,
                                                        4.451169e-03F,
                                                        -1.8733565e-03F,
                                                        -3.0617337e-03F,
                                                        -2.0480475e-03F,
                                                        -9.429148e-04F,
                                                        -3.3276266e-04F,
                                                        -9.4008676e-05F,
                                                        -2.1747515e-05F,
                                                        -4.176607e-06F}};

[[gnu::always_inline]] inline __m512 erf_lanes(__m512 x) noexcept {
  const __m512i sign = _mm512_set1_epi32(INT32_MIN);
  const __m512i bits = _mm512_castps_si512(x);
  const __m512 magnitude = _mm512_castsi512_ps(_mm512_andnot_si512(sign, bits));
  const __m512 t = at_most(4.0F, magnitude);
  // The low bits hold the rounded number; the table lookup uses four of them.
  const __m512 shifted =
      _mm512_fmadd_ps(t, _mm512_set1_ps(kErfStepsPerUnit), _mm512_set1_ps(kRounder));
  const __m512i interval = _mm512_castps_si512(shifted);
  const __m512 n = shifted - _mm512_set1_ps(kRounder);
  const __m512 u = _mm512_fnmadd_ps(n, _mm512_set1_ps(kErfStep), t);
  const auto coefficient = [interval](int k) {
    return _mm512_permutexvar_ps(interval, _mm512_load_ps(kErfTable[k]));
  };
  __m512 p = coefficient(6);
  for (int k = 5; k >= 0; --k) {
    p = _mm512_fmadd_ps(p, u, coefficient(k));
  }
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(_mm512_castps_si512(p), bits, sign, 0xF8));  // p | (bits & sign)
}

}  // namespace hearth::cpu::HEARTH_CPU_ISA

#endif
