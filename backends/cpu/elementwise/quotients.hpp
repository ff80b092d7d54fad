// Quotients by one divisor without a division, with the bits of a division. Private to sources that
// are compiled per instruction set. Threads: any; pure functions.
#pragma once

#include "backends/cpu/machine/vector_math.hpp"

#include <cstdint>
#include <limits>

namespace hearth::cpu::HEARTH_CPU_ISA {

/// Whether 1 / y is exact and normal: x / y and x · (1 / y) are then the same number, rounded once.
template <class T>
bool has_exact_reciprocal(T y) noexcept {
  int exponent = 0;
  const double mantissa = __builtin_frexp(__builtin_fabs(static_cast<double>(y)), &exponent);
  return mantissa == 0.5 && exponent > std::numeric_limits<T>::min_exponent &&
         exponent < std::numeric_limits<T>::max_exponent;
}

/// Plain numbers: their quotients and the remainders stay far from the limits of the range.
inline constexpr float kLeastPlain = 0x1p-60F;
inline constexpr float kMostPlain = 0x1p60F;

inline bool is_plain(float y) noexcept {
  return __builtin_fabsf(y) >= kLeastPlain && __builtin_fabsf(y) <= kMostPlain;
}

/// Whether each x[i] is plain, or 0.
inline bool are_plain(const float* x, std::int64_t count) noexcept {
  const std::uint32_t least = static_cast<std::uint32_t>(to_bits(kLeastPlain)) - 1U;
  std::uint32_t smallest = least;
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto bits = static_cast<std::uint32_t>(to_bits(x[i]) & INT32_MAX);
    largest = bits > largest ? bits : largest;
    smallest = bits - 1U < smallest ? bits - 1U : smallest;  // 0 becomes the largest
  }
  return smallest == least && largest <= static_cast<std::uint32_t>(to_bits(kMostPlain));
}

#ifdef __FMA__
/// Returns x / y, rounded once, in the time of six multiplications. Computes x·(1/y) with two
/// corrections, the second of which rounds correctly. Requires plain numbers, or x = 0.
/// Paper: Markstein, Computation of elementary functions on the IBM RISC System/6000 processor,
/// theorem on quotients.
[[gnu::always_inline]] inline float plain_quotient(float x, float y, float reciprocal) noexcept {
  const float magnitude = __builtin_fabsf(x);
  const float first = magnitude * reciprocal;
  const float second = __builtin_fmaf(__builtin_fmaf(-first, y, magnitude), reciprocal, first);
  const float third = __builtin_fmaf(__builtin_fmaf(-second, y, magnitude), reciprocal, second);
  return from_bits(to_bits(third) ^ (to_bits(x) & INT32_MIN));
}
#endif

}  // namespace hearth::cpu::HEARTH_CPU_ISA
