// Philox4x32-10, the counter-based random generator of the random ops, dropout, initialisers and
// data sets. Block c under key s is a pure function of (s, c), so an element's value depends only
// on its position. Values, any thread.
// Words of each element, on every backend; i is the element's row-major index:
//   uniform, bernoulli, dropout   word i%4 of block counter + i/4
//   uniform in f64                words 2*(i%2) and 2*(i%2) + 1 of block counter + i/2
//   normal                        words p and p + 1 of block counter + i/4, p = i%4 rounded down
//                                 to even: radius and angle; even i cosine, odd i sine
//   normal in f64                 words 0, 1 (radius) and 2, 3 (angle) of block counter + i/2;
//                                 even i cosine, odd i sine
// f16 and bf16 use the words of f32. block_count() returns how far an op advances a generator's
// counter.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth::philox {

using Block = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

/// Runs ten rounds on a 128-bit counter, lowest word first.
///
/// Paper: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11, section
/// 3.3.
[[nodiscard]] constexpr Block rounds(Block counter, Key key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32U) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32U) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(a)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

/// Returns four random words: block `counter` under key `seed`. The upper half of Philox's counter
/// is 0.
[[nodiscard]] constexpr Block block(std::uint64_t seed, std::uint64_t counter) noexcept {
  return rounds(
      {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32U), 0, 0},
      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
}

/// Returns the number of blocks for `count` elements of a random op. `wide` is true for uniform and
/// normal in f64, which need two words an element.
[[nodiscard]] constexpr std::uint64_t block_count(std::int64_t count, bool wide) noexcept {
  const auto n = static_cast<std::uint64_t>(count);
  return wide ? (n + 1) / 2 : (n + 3) / 4;
}

/// Maps a word to [0, 1) in steps of 2^-24; exact in f32.
[[nodiscard]] constexpr float unit_f32(std::uint32_t word) noexcept {
  return static_cast<float>(word >> 8U) * 0x1p-24F;
}
/// Maps a word to [0, 1) with as many bits as the 16-bit type holds, so that no value rounds up to
/// 1: 11 bits for f16, 8 for bf16.
[[nodiscard]] constexpr float unit_f16(std::uint32_t word) noexcept {
  return static_cast<float>(word >> 21U) * 0x1p-11F;
}
[[nodiscard]] constexpr float unit_bf16(std::uint32_t word) noexcept {
  return static_cast<float>(word >> 24U) * 0x1p-8F;
}
/// Maps two words to [0, 1) in steps of 2^-53: 27 upper bits of the first, 26 of the second.
[[nodiscard]] constexpr double unit_f64(std::uint32_t high, std::uint32_t low) noexcept {
  return (static_cast<double>(high >> 5U) * 0x1p26 + static_cast<double>(low >> 6U)) * 0x1p-53;
}

/// Returns the threshold of probability p, in 0 … 2^24. A word is a hit if (word >> 8) <
/// threshold(p): bernoulli's ones, dropout's zeros.
[[nodiscard]] constexpr std::uint32_t threshold(double p) noexcept {
  if (!(p > 0)) {
    return 0;
  }
  if (p >= 1) {
    return 1U << 24U;
  }
  const double scaled = p * 0x1p24;
  const auto floor = static_cast<std::uint32_t>(scaled);
  return floor + (static_cast<double>(floor) < scaled ? 1U : 0U);
}
[[nodiscard]] constexpr bool is_hit(std::uint32_t word, std::uint32_t limit) noexcept {
  return (word >> 8U) < limit;
}

/// Returns two independent standard normal values (Box-Muller) from two uniform ones in [0, 1):
/// {cosine, sine} of the angle 2π·angle, times the radius sqrt(-2 ln r). r is radius + one step, in
/// (0, 1], so the logarithm is finite. The step is 2^-24, or 2^-53 in f64.
[[nodiscard]] inline std::array<double, 2> normal_pair(double radius,
                                                       double angle,
                                                       double step) noexcept {
  constexpr double kTwoPi = 6.283185307179586476925286766559;
  const double length = std::sqrt(-2.0 * std::log(radius + step));
  return {length * std::cos(kTwoPi * angle), length * std::sin(kTwoPi * angle)};
}

/// Range [first, last] of random_uniform's results: the smallest value of the element type that is
/// not below `low`, and the largest below `high`. first is above last if the type has no value in
/// [low, high). An empty range, low == high, gives low.
struct UniformRange {
  double first = 0;
  double last = 0;

  [[nodiscard]] double clamp(double value) const noexcept {
    return std::min(std::max(value, first), last);
  }
};
/// Returns the largest value of a float type that is not above `value`, which is within its range.
[[nodiscard]] inline double round_down(double value, DType dtype) noexcept {
  if (dtype == DType::f64 || value == 0) {  // the exponent of 0 raises FE_INVALID
    return value;
  }
  const int digits = dtype == DType::f16 ? 11 : dtype == DType::bf16 ? 8 : 24;
  const int smallest = dtype == DType::f16 ? -14 : -126;  // exponent of the smallest normal value
  const double step = std::ldexp(1.0, std::max(std::ilogb(value), smallest) - (digits - 1));
  return std::floor(value / step) * step;  // exact: a step is a power of two
}
[[nodiscard]] inline UniformRange uniform_range(double low, double high, DType dtype) noexcept {
  if (low == high) {
    return {low, low};
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {-round_down(-low, dtype), round_down(std::nextafter(high, -kInfinity), dtype)};
}

/// Returns u of element i of random_uniform, low + (high - low)·u, for a result of type `dtype`.
[[nodiscard]] constexpr double uniform_element(std::uint64_t seed,
                                               std::uint64_t counter,
                                               std::uint64_t i,
                                               DType dtype) noexcept {
  if (dtype == DType::f64) {
    const Block words = block(seed, counter + i / 2);
    const std::size_t first = 2 * (i % 2);
    return unit_f64(words[first], words[first + 1]);
  }
  const std::uint32_t word = block(seed, counter + i / 4)[i % 4];
  if (dtype == DType::f16) {
    return static_cast<double>(unit_f16(word));
  }
  return static_cast<double>(dtype == DType::bf16 ? unit_bf16(word) : unit_f32(word));
}

/// Returns z of element i of random_normal, mean + deviation·z, for a result of type `dtype`.
[[nodiscard]] inline double normal_element(std::uint64_t seed,
                                           std::uint64_t counter,
                                           std::uint64_t i,
                                           DType dtype) noexcept {
  if (dtype == DType::f64) {
    const Block words = block(seed, counter + i / 2);
    return normal_pair(unit_f64(words[0], words[1]), unit_f64(words[2], words[3]), 0x1p-53)[i % 2];
  }
  const Block words = block(seed, counter + i / 4);
  const std::size_t first = (i % 4) & ~std::size_t{1};
  return normal_pair(static_cast<double>(unit_f32(words[first])),
                     static_cast<double>(unit_f32(words[first + 1])),
                     0x1p-24)[i % 2];
}

/// Returns whether element i of random_bernoulli is 1, or of dropout is dropped.
[[nodiscard]] constexpr bool hit_element(std::uint64_t seed,
                                         std::uint64_t counter,
                                         std::uint64_t i,
                                         std::uint32_t limit) noexcept {
  return is_hit(block(seed, counter + i / 4)[i % 4], limit);
}

}  // namespace hearth::philox
