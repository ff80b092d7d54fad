// Sums of contiguous floats, and maxima and minima of all types, with several vector accumulators,
// joined in a fixed order. Private to sources that are compiled per instruction set. Threads: any;
// pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "reduce_loops.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

/// The element that a fold selects: the largest, or the smallest.
enum class Extreme : std::uint8_t { largest, smallest };

/// Ignores a NaN x.
template <Extreme extreme, class T>
[[gnu::always_inline]] inline T better(T best, T x) noexcept {
  if constexpr (extreme == Extreme::largest) {
    return x > best ? x : best;
  } else {
    return x < best ? x : best;
  }
}
/// NaN beats everything, and nothing beats NaN.
template <Extreme extreme, class T>
[[gnu::always_inline]] inline T chosen(T best, T x) noexcept {
  if constexpr (extreme == Extreme::largest) {
    return x > best || x != x ? x : best;
  } else {
    return x < best || x != x ? x : best;
  }
}
template <class T>
[[gnu::always_inline]] inline T larger(T best, T x) noexcept {
  return chosen<Extreme::largest>(best, x);
}

// A group of accumulators that the compiler keeps in vector registers: one cache line.
template <class T>
inline constexpr std::size_t kLaneCount = 64 / sizeof(T);
template <class T>
inline constexpr auto kLanes = static_cast<std::int64_t>(kLaneCount<T>);
template <class T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
  /// Result of a comparison for each lane: a signed integer of the lane's size.
  using Flag = std::conditional_t<sizeof(T) == 8,
                                  std::int64_t,
                                  std::conditional_t<sizeof(T) == 4, std::int32_t, std::int8_t>>;
};

template <class T>
[[nodiscard]] constexpr T not_a_number() noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    return std::numeric_limits<T>::quiet_NaN();
  } else {
    return T{0};
  }
}

// Adds halves until one lane is left. Written with vectors, because the compiler leaves a loop over
// an array in scalars, which took as long as 500 additions.
template <class T>
[[nodiscard]] [[gnu::always_inline]] inline double sum_of_lanes(
    const typename Lanes<T>::Vector& lanes) {
  typedef double Wide __attribute__((vector_size(64), may_alias));
  typedef double Half __attribute__((vector_size(32), may_alias));
  typedef double Quarter __attribute__((vector_size(16), may_alias));
  Wide wide;
  if constexpr (sizeof(T) == sizeof(double)) {
    wide = reinterpret_cast<const Wide&>(lanes);
  } else {
    typedef float Floats __attribute__((vector_size(32), may_alias));
    Floats halves[2];
    std::memcpy(halves, &lanes, sizeof(lanes));
    wide = __builtin_convertvector(halves[0], Wide) + __builtin_convertvector(halves[1], Wide);
  }
  Half half[2];
  std::memcpy(half, &wide, sizeof(wide));
  const Half four = half[0] + half[1];
  Quarter quarter[2];
  std::memcpy(quarter, &four, sizeof(four));
  const Quarter two = quarter[0] + quarter[1];
  return two[0] + two[1];
}

template <class T>
[[nodiscard]] inline double sum_block(const T* in, std::int64_t count) {
  using Vector = typename Lanes<T>::Vector;
  constexpr std::int64_t kStep = kLanes<T>;
  std::int64_t i = 0;
  double total = 0;
  if (count >= kStep) {
    Vector a = *reinterpret_cast<const Vector*>(in);
    i = kStep;
    if (count >= 8 * kStep) {
      Vector b{};
      Vector c{};
      Vector d{};
      for (; i + 4 * kStep <= count; i += 4 * kStep) {
        a += *reinterpret_cast<const Vector*>(in + i);
        b += *reinterpret_cast<const Vector*>(in + i + kStep);
        c += *reinterpret_cast<const Vector*>(in + i + 2 * kStep);
        d += *reinterpret_cast<const Vector*>(in + i + 3 * kStep);
      }
      a = (a + b) + (c + d);
    }
    for (; i + kStep <= count; i += kStep) {
      a += *reinterpret_cast<const Vector*>(in + i);
    }
    total = sum_of_lanes<T>(a);
  }
  T rest{0};
  for (; i < count; ++i) {
    rest += in[i];
  }
  return total + static_cast<double>(rest);
}

/// Returns the sum, kept in f64 from block to block.
template <class T>
[[nodiscard]] inline double sum_of(const T* in, std::int64_t count) {
  double total = 0;
  for (std::int64_t i = 0; i < count; i += kSumBlock) {
    total += sum_block(in + i, count - i < kSumBlock ? count - i : kSumBlock);
  }
  return total;
}

/// Returns the largest or smallest of count > 0 elements, or NaN if one is NaN.
template <Extreme extreme, class T>
[[nodiscard]] inline T extreme_of(const T* in, std::int64_t count) {
  constexpr std::int64_t kStep = kLanes<T>;
  std::int64_t i = 0;
  T best = in[0];
  if (count >= kStep) {
    using Vector = typename Lanes<T>::Vector;
    using Mask = decltype(Vector{} == Vector{});
    Vector a = *reinterpret_cast<const Vector*>(in);
    Vector b = a;
    Mask unordered = a != a;
    i = kStep;
    // The comparison ignores NaN, which is detected separately, off the chain of dependent selects.
    for (; i + 2 * kStep <= count; i += 2 * kStep) {
      const Vector x = *reinterpret_cast<const Vector*>(in + i);
      const Vector y = *reinterpret_cast<const Vector*>(in + i + kStep);
      if constexpr (extreme == Extreme::largest) {
        a = x > a ? x : a;
        b = y > b ? y : b;
      } else {
        a = x < a ? x : a;
        b = y < b ? y : b;
      }
      unordered |= (x != x) | (y != y);
    }
    T lanes[2 * kLaneCount<T>];
    typename Lanes<T>::Flag flags[kLaneCount<T>];
    std::memcpy(lanes, &a, sizeof(a));
    std::memcpy(lanes + kStep, &b, sizeof(b));
    std::memcpy(flags, &unordered, sizeof(unordered));
    for (std::int64_t width = kStep; width > 0; width /= 2) {
      for (std::int64_t lane = 0; lane < width; ++lane) {
        lanes[lane] = chosen<extreme>(lanes[lane], lanes[lane + width]);
      }
    }
    best = lanes[0];
    for (const auto flag : flags) {
      best = flag != 0 ? not_a_number<T>() : best;
    }
  }
  for (; i < count; ++i) {
    best = chosen<extreme>(best, in[i]);
  }
  return best;
}
template <class T>
[[nodiscard]] inline T max_of(const T* in, std::int64_t count) {
  return extreme_of<Extreme::largest>(in, count);
}

}  // namespace hearth::cpu::HEARTH_CPU_ISA
