// Declarations shared by the window loops of one instruction set. Included by sources of
// ISA_SOURCES only. Threads: any; pure functions.
#pragma once

#include "backends/cpu/products/gemm_vector.hpp"
#include "window_loops.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

// Keeps a value in a register, and its origin from the optimiser. Without it g++ 12 reads a vector
// again for each product, and keeps an address for each row instead of adding a step.
template <class V>
[[gnu::always_inline]] inline void keep(V& value) {
#if defined(__AVX512F__)
  asm("" : "+v"(value));
#elif defined(__x86_64__)
  asm("" : "+x"(value));
#endif
}
template <class T>
[[gnu::always_inline]] inline void keep(const T*& address) {
  asm("" : "+r"(address));
}

// Vectors of one width: whole ones, or halves, which do the work of few columns in half the time.
template <class T>
struct Whole {
  using Value = Vector<T>;
  static constexpr int kCount = kLanes<T>;

  [[gnu::always_inline]] static Value read(const T* from) { return load(from); }
  [[gnu::always_inline]] static Value all(T value) { return splat(value); }
  [[gnu::always_inline]] static Value fma(Value a, Value b, Value c) {
    return multiply_add<T>(a, b, c);
  }
  [[gnu::always_inline]] static void write(T* to, Value value) { store(to, value); }
  [[gnu::always_inline]] static void write_part(T* to, Value value, int count) {
    store_part(to, value, count);
  }
  [[gnu::always_inline]] static T sum(Value value) { return sum_lanes<T>(value); }

#ifdef __AVX512F__
  using Some = int;
  [[gnu::always_inline]] static Some some(int count) {
    return count;
  }
  [[gnu::always_inline]] static Value read_some(const T* from, Some count) {
    return load_part(from, count);
  }
#else
  // The first lanes of a vector. Reads all of it: a copy of a variable size is a call.
  using Some = decltype(Value{} == Value{});
  [[gnu::always_inline]] static Some some(int count) {
    Some mask;
    for (int lane = 0; lane < kCount; ++lane) {
      mask[lane] = lane < count ? -1 : 0;
    }
    return mask;
  }
  [[gnu::always_inline]] static Value read_some(const T* from, Some mask) {
    return __builtin_bit_cast(Value, __builtin_bit_cast(Some, load(from)) & mask);
  }
#endif
};

#ifdef __AVX512F__
struct Half8 {
  using Value = __m256;
  using Some = int;
  static constexpr int kCount = 8;

  [[gnu::always_inline]] static __mmask8 mask(int count) {
    return static_cast<__mmask8>((1U << static_cast<unsigned>(count)) - 1U);
  }
  [[gnu::always_inline]] static Value read(const float* from) { return _mm256_loadu_ps(from); }
  [[gnu::always_inline]] static Value all(float value) { return _mm256_set1_ps(value); }
  [[gnu::always_inline]] static Value fma(Value a, Value b, Value c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  [[gnu::always_inline]] static void write(float* to, Value value) { _mm256_storeu_ps(to, value); }
  [[gnu::always_inline]] static void write_part(float* to, Value value, int count) {
    _mm256_mask_storeu_ps(to, mask(count), value);
  }
  [[gnu::always_inline]] static float sum(Value value) {
    const __m128 four = _mm256_castps256_ps128(value) + _mm256_extractf128_ps(value, 1);
    const __m128 two = four + _mm_movehl_ps(four, four);
    return _mm_cvtss_f32(two + _mm_movehdup_ps(two));
  }
  [[gnu::always_inline]] static Some some(int count) { return count; }
  [[gnu::always_inline]] static Value read_some(const float* from, Some count) {
    return _mm256_maskz_loadu_ps(mask(count), from);
  }
};
#endif

// The members of WindowLoops, for T = float and double.
template <class T>
void copy_planes(const PlaneCopy& planes, T* to);
template <class T>
void spread(const T* from, T* to, std::int64_t step, std::int64_t count);
template <class T>
void interleave(const Interleave<T>& rows);
template <class T>
void sum_windows(const WindowSum<T>& given);
template <class T>
std::int64_t dot_windows(const WindowDots<T>& given, std::int64_t terms);
template <class T>
void finish_dots(T* lanes, std::int64_t taps, double* totals);

}  // namespace hearth::cpu::HEARTH_CPU_ISA
