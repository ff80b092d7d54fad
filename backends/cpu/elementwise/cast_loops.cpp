#include "cast_loops.hpp"

#ifdef __F16C__
#include <immintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

template <class T>
constexpr bool is_half = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

void widen(float* to, const f16* from, std::int64_t count) {
  std::int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    __m128i halves;
    std::memcpy(&halves, from + i, sizeof(halves));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
#endif
  for (; i < count; ++i) {
    to[i] = static_cast<float>(from[i]);
  }
}

void widen(float* to, const bf16* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(from[i].bits) << 16U);
  }
}

void narrow(f16* to, const float* from, std::int64_t count) {
  std::int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(static_cast<void*>(to + i), &halves, sizeof(halves));
  }
#endif
  for (; i < count; ++i) {
    to[i] = f16(from[i]);
  }
}

void narrow(bf16* to, const float* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto word = __builtin_bit_cast(std::uint32_t, from[i]);
    const std::uint32_t rounded = (word + 0x7FFFU + ((word >> 16U) & 1U)) >> 16U;
    const std::uint32_t quiet = (word >> 16U) | 0x40U;
    to[i].bits = static_cast<std::uint16_t>((word & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
  }
}

// Rounds f64 to f32 to odd, so that the later rounding to 16 bits is the only one.
float round_to_odd(double value) noexcept {
  const auto near = static_cast<float>(value);
  auto word = __builtin_bit_cast(std::uint32_t, near);
  const auto back = static_cast<double>(near);
  word -= std::fabs(back) > std::fabs(value) ? 1U : 0U;
  word |= back != value && value == value ? 1U : 0U;
  return __builtin_bit_cast(float, word);
}

// Rounds an integer of more than 53 bits to odd: clears the lowest 11 bits and sets the next one if
// a bit was lost.
double round_to_odd(std::int64_t value) noexcept {
  constexpr std::uint64_t kLost = (1U << 11U) - 1;
  const auto word = static_cast<std::uint64_t>(value);
  std::uint64_t size = value < 0 ? 0 - word : word;
  const bool is_inexact = (size >> 53U) != 0 && (size & kLost) != 0;
  size = is_inexact ? (size & ~kLost) | (kLost + 1) : size;
  return value < 0 ? -static_cast<double>(size) : static_cast<double>(size);
}

template <class From, class To>
To convert(From value) noexcept {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From{0};
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // The upper limit as a float may be one above the range, hence >=.
    constexpr auto kHigh = static_cast<From>(std::numeric_limits<To>::max());
    constexpr auto kLow = static_cast<From>(std::numeric_limits<To>::min());
    const bool is_high = value >= kHigh;
    const bool is_low = value <= kLow;
    const bool is_inside = !is_high && !is_low && value == value;
    const To inside = static_cast<To>(is_inside ? value : From{0});
    const To above = is_high ? std::numeric_limits<To>::max() : inside;
    return is_low ? std::numeric_limits<To>::min() : above;
  } else {
    return static_cast<To>(value);
  }
}

template <class From, class To>
void plain(To* to, const From* from, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = convert<From, To>(from[i]);
  }
}

constexpr std::int64_t kBlock = 256;

template <class From, class To>
void run(void* out, const void* in, std::int64_t count) {
  auto* to = static_cast<To*>(out);
  const auto* from = static_cast<const From*>(in);
  if constexpr (std::is_same_v<From, To>) {
    std::memmove(out, in, static_cast<std::size_t>(count) * sizeof(From));
  } else if constexpr (is_half<From> && std::is_same_v<To, float>) {
    widen(to, from, count);
  } else if constexpr (std::is_same_v<From, float> && is_half<To>) {
    narrow(to, from, count);
  } else if constexpr (is_half<From>) {
    float block[kBlock];
    for (std::int64_t i = 0; i < count; i += kBlock) {
      const std::int64_t n = std::min(kBlock, count - i);
      widen(block, from + i, n);
      run<float, To>(to + i, block, n);
    }
  } else if constexpr (is_half<To>) {
    float block[kBlock];
    for (std::int64_t i = 0; i < count; i += kBlock) {
      const std::int64_t n = std::min(kBlock, count - i);
      for (std::int64_t j = 0; j < n; ++j) {
        if constexpr (std::is_same_v<From, std::int64_t>) {
          block[j] = round_to_odd(round_to_odd(from[i + j]));
        } else {
          block[j] = round_to_odd(static_cast<double>(from[i + j]));
        }
      }
      narrow(to + i, block, n);
    }
  } else {
    plain(to, from, count);
  }
}

template <class From>
constexpr CastLoops::Row from() {
  return {run<From, float>,
          run<From, double>,
          run<From, f16>,
          run<From, bf16>,
          run<From, std::int32_t>,
          run<From, std::int64_t>,
          run<From, std::uint8_t>,
          run<From, bool>,
          run<From, std::int8_t>};
}

}  // namespace

extern const CastLoops cast_loops_table = {{
    from<float>(),
    from<double>(),
    from<f16>(),
    from<bf16>(),
    from<std::int32_t>(),
    from<std::int64_t>(),
    from<std::uint8_t>(),
    from<bool>(),
    from<std::int8_t>(),
}};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
