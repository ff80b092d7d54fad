// Vectors of the including source's instruction set, for the contraction loops. Included by sources
// of ISA_SOURCES only. Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#ifdef __x86_64__
#include <immintrin.h>
#endif
#if defined(__clang__) && !defined(__AVX512FP16__)
#include <hearth/runtime/base/dtype.hpp>
#endif

namespace hearth::cpu::HEARTH_CPU_ISA {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
inline constexpr int kTileRows = 14;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
inline constexpr int kTileRows = 6;
#else
inline constexpr int kVectorBytes = 16;
inline constexpr int kTileRows = 4;
#endif

template <class T>
struct VectorOf {
  using type [[gnu::vector_size(kVectorBytes)]] = T;
};
template <class T>
using Vector = typename VectorOf<T>::type;
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

template <class T>
[[gnu::always_inline]] inline Vector<T> load(const T* from) {
  Vector<T> value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
[[gnu::always_inline]] inline void store(T* to, Vector<T> value) {
  __builtin_memcpy(to, &value, sizeof(value));
}

template <class T>
[[gnu::always_inline]] inline Vector<T> splat(T value) {
  return value - Vector<T>{};  // x - 0 is x for every x, -0 included
}

/// Returns a·b + c, with one rounding if the instruction set has FMA. Intrinsics force the choice.
/// A compiler decides by the shape of the loop, so a row's bits would depend on the number of rows
/// (clang does this).
template <class T>
[[gnu::always_inline]] inline Vector<T> multiply_add(Vector<T> a, Vector<T> b, Vector<T> c) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4) {
    return _mm512_fmadd_ps(a, b, c);
  } else {
    return _mm512_fmadd_pd(a, b, c);
  }
#elif defined(__FMA__)
  if constexpr (sizeof(T) == 4) {
    return _mm256_fmadd_ps(a, b, c);
  } else {
    return _mm256_fmadd_pd(a, b, c);
  }
#else
  return a * b + c;
#endif
}

/// Loads the first `count` lanes; the others are 0.
template <class T>
[[gnu::always_inline]] inline Vector<T> load_part(const T* from, int count) {
#ifdef __AVX512F__
  const auto mask = (1U << static_cast<unsigned>(count)) - 1U;
  if constexpr (sizeof(T) == 4) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
  } else {
    return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), from);
  }
#else
  Vector<T> value{};
  __builtin_memcpy(&value, from, static_cast<std::size_t>(count) * sizeof(T));
  return value;
#endif
}

/// Stores the first `count` lanes.
template <class T>
[[gnu::always_inline]] inline void store_part(T* to, Vector<T> value, int count) {
#ifdef __AVX512F__
  const auto mask = (1U << static_cast<unsigned>(count)) - 1U;
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask), value);
  } else {
    _mm512_mask_storeu_pd(to, static_cast<__mmask8>(mask), value);
  }
#else
  __builtin_memcpy(to, &value, static_cast<std::size_t>(count) * sizeof(T));
#endif
}

template <class V, int... kIndex>
[[gnu::always_inline]] inline auto add_halves(V value,
                                              std::integer_sequence<int, kIndex...> /*half*/) {
  constexpr int kHalf = sizeof...(kIndex);
  return __builtin_shufflevector(value, value, kIndex...) +
         __builtin_shufflevector(value, value, (kIndex + kHalf)...);
}

/// Sums all lanes by halves: lane i plus lane i + half, until one is left.
template <class T>
[[gnu::always_inline]] inline T sum_lanes(Vector<T> value) {
  constexpr int kHalf = kLanes<T> / 2;
  const auto half = add_halves(value, std::make_integer_sequence<int, kHalf>{});
  if constexpr (kHalf == 1) {
    return half[0];
  } else {
    const auto quarter = add_halves(half, std::make_integer_sequence<int, kHalf / 2>{});
    if constexpr (kHalf == 2) {
      return quarter[0];
    } else {
      const auto eighth = add_halves(quarter, std::make_integer_sequence<int, kHalf / 4>{});
      if constexpr (kHalf == 4) {
        return eighth[0];
      } else {
        return add_halves(eighth, std::make_integer_sequence<int, kHalf / 8>{})[0];
      }
    }
  }
}

/// Storage of the 16-bit types. The classes of runtime/base have inline functions, which sources of
/// a higher level must not share.
struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

[[gnu::always_inline]] inline float widen(float value) {
  return value;
}
[[gnu::always_inline]] inline double widen(double value) {
  return value;
}
// clang 14 supports _Float16 from avx512fp16 on only. It builds the fuzzers, where speed does not
// matter.
#if defined(__clang__) && !defined(__AVX512FP16__)
[[gnu::always_inline]] inline float widen(Half value) {
  f16 half;
  half.bits = value.bits;
  return static_cast<float>(half);
}
[[gnu::always_inline]] inline Half to_half(float value) {
  return {f16(value).bits};
}
#else
[[gnu::always_inline]] inline float widen(Half value) {
  return static_cast<float>(__builtin_bit_cast(_Float16, value.bits));
}
[[gnu::always_inline]] inline Half to_half(float value) {
  return {__builtin_bit_cast(std::uint16_t, static_cast<_Float16>(value))};
}
#endif
[[gnu::always_inline]] inline float widen(Brain value) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16U);
}

/// Loads one vector of stored elements, in the type of the sum.
[[gnu::always_inline]] inline Vector<float> load_wide(const float* from) {
  return load(from);
}
[[gnu::always_inline]] inline Vector<double> load_wide(const double* from) {
  return load(from);
}
[[gnu::always_inline]] inline Vector<float> load_wide(const Half* from) {
#if defined(__AVX512F__)
  __m256i bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return _mm512_maskz_cvtph_ps(static_cast<__mmask16>(0xffffU),
                               bits);  // the unmasked form warns in g++ 12
#elif defined(__F16C__)
  __m128i bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return _mm256_cvtph_ps(bits);
#else
  Vector<float> value;
  for (int lane = 0; lane < kLanes<float>; ++lane) {
    value[lane] = widen(from[lane]);
  }
  return value;
#endif
}
[[gnu::always_inline]] inline Vector<float> load_wide(const Brain* from) {
  using Narrow [[gnu::vector_size(kVectorBytes / 2)]] = std::uint16_t;
  using Wide [[gnu::vector_size(kVectorBytes)]] = std::uint32_t;
  Narrow bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return __builtin_bit_cast(Vector<float>, __builtin_convertvector(bits, Wide) << 16U);
}

/// Loads the first `count` elements; the other lanes are 0.
template <class S>
[[gnu::always_inline]] inline auto load_wide_part(const S* from, int count) {
  if constexpr (sizeof(S) >= 4) {
    return load_part(from, count);
  } else {
    S staged[kLanes<float>] = {};
    __builtin_memcpy(staged, from, static_cast<std::size_t>(count) * sizeof(S));
    return load_wide(staged);
  }
}

}  // namespace hearth::cpu::HEARTH_CPU_ISA
