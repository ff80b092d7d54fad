#include "backends/cpu/products/gemm_vector.hpp"
#include "window_loops_isa.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

// Vectors of one width. With few columns, half of a vector does the same work in half the time.
template <class T>
struct Whole {
  using Value = Vector<T>;
  static constexpr int kCount = kLanes<T>;
  [[gnu::always_inline]] static Value read(const T* from) { return load(from); }
  [[gnu::always_inline]] static Value all(T value) { return splat(value); }
  [[gnu::always_inline]] static Value fma(Value a, Value b, Value c) {
    return multiply_add<T>(a, b, c);
  }
  [[gnu::always_inline]] static void write(T* to, Value value, int count) {
    if (count >= kCount) {
      store(to, value);
    } else {
      store_part(to, value, count);
    }
  }
};

#ifdef __AVX512F__
struct Half8 {
  using Value = __m256;
  static constexpr int kCount = 8;
  [[gnu::always_inline]] static Value read(const float* from) { return _mm256_loadu_ps(from); }
  [[gnu::always_inline]] static Value all(float value) { return _mm256_set1_ps(value); }
  [[gnu::always_inline]] static Value fma(Value a, Value b, Value c) {
    return _mm256_fmadd_ps(a, b, c);
  }
  [[gnu::always_inline]] static void write(float* to, Value value, int count) {
    _mm256_mask_storeu_ps(
        to, static_cast<__mmask8>((1U << static_cast<unsigned>(count)) - 1U), value);
  }
};
#endif

// kRows rows of a sum whose offsets are a grid of kHigh × kWide taps; rows of y are kStride rows of
// taps apart. Each row of x is read once for all rows of y that it serves. The order of the rows
// keeps that of the taps.
template <class T, class L, int kHigh, int kWide, int kStride, int kRows>
[[gnu::always_inline]] inline void sum_rows(
    const WindowSum<T>& sum,
    const T* x,
    const typename L::Value (&w)[std::size_t{kHigh * kWide}],
    T* y,
    int count) {
  typename L::Value acc[std::size_t{kRows}] = {};
#pragma GCC unroll 32
  for (int r = 0; r < kStride * (kRows - 1) + kHigh; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < kWide; ++b) {
      const typename L::Value value = L::read(x + r * sum.grid_step + sum.offsets[b]);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const int a = r - kStride * i;
        if (a >= 0 && a < kHigh) {
          acc[i] = L::fma(value, w[a * kWide + b], acc[i]);
        }
      }
    }
  }
  if (sum.start != nullptr) {
    const typename L::Value start = L::all(*sum.start);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      acc[i] += start;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    L::write(y + i * sum.y_row_step, acc[i], count);
  }
}

// Rows in blocks of 8 and 4. The last block overlaps the one before, which gives the same bits.
template <class L, class T, class RunBlock>
[[gnu::always_inline]] inline void for_blocks(const WindowSum<T>& sum, const RunBlock& run_block) {
  std::int64_t row = 0;
  for (; row + 8 <= sum.rows; row += 8) {
    run_block.template operator()<8>(row);
  }
  for (; row + 4 <= sum.rows; row += 4) {
    run_block.template operator()<4>(row);
  }
  if (row < sum.rows && sum.rows >= 4) {
    run_block.template operator()<4>(sum.rows - 4);
    return;
  }
  for (; row < sum.rows; ++row) {
    run_block.template operator()<1>(row);
  }
}

template <class T, class L, int kHigh, int kWide, int kStride>
[[gnu::always_inline]] inline void sum_columns(const WindowSum<T>& sum,
                                               std::int64_t begin,
                                               std::int64_t end) {
  typename L::Value w[std::size_t{kHigh * kWide}];
#pragma GCC unroll 32
  for (int k = 0; k < kHigh * kWide; ++k) {
    w[k] = L::all(sum.w[sum.places[k]]);
  }
  for_blocks<L>(
      sum, [&]<int kRows>(std::int64_t row) __attribute__((always_inline)) {
        for (std::int64_t column = begin; column < end; column += L::kCount) {
          const std::int64_t count = end - column;
          sum_rows<T, L, kHigh, kWide, kStride, kRows>(
              sum,
              sum.x + row * sum.x_row_step + column,
              w,
              sum.y + row * sum.y_row_step + column,
              count < L::kCount ? static_cast<int>(count) : L::kCount);
        }
      });
}

template <int kHigh, int kWide, int kStride>
void sum_grid(const WindowSum<float>& sum) {
#ifdef __AVX512F__
  const std::int64_t half = Half8::kCount;
  const std::int64_t whole = sum.columns % (2 * half) > half || sum.columns % (2 * half) == 0
                                 ? sum.columns
                                 : sum.columns / (2 * half) * (2 * half);
  if (whole > 0) {
    sum_columns<float, Whole<float>, kHigh, kWide, kStride>(sum, 0, whole);
  }
  if (whole < sum.columns) {
    sum_columns<float, Half8, kHigh, kWide, kStride>(sum, whole, sum.columns);
  }
#else
  sum_columns<float, Whole<float>, kHigh, kWide, kStride>(sum, 0, sum.columns);
#endif
}

// Any taps.
template <class T>
void sum_any(const WindowSum<T>& sum) {
  using L = Whole<T>;
  for_blocks<L>(
      sum, [&]<int kRows>(std::int64_t row) __attribute__((always_inline)) {
        for (std::int64_t column = 0; column < sum.columns; column += L::kCount) {
          const T* const x = sum.x + row * sum.x_row_step + column;
          Vector<T> acc[std::size_t{kRows}] = {};
          for (std::int64_t k = 0; k < sum.depth; ++k) {
            const Vector<T> w = L::all(sum.w[sum.places[k]]);
            const T* const from = x + sum.offsets[k];
#pragma GCC unroll 16
            for (int i = 0; i < kRows; ++i) {
              acc[i] = L::fma(L::read(from + i * sum.x_row_step), w, acc[i]);
            }
          }
          const std::int64_t left = sum.columns - column;
          const int count = left < L::kCount ? static_cast<int>(left) : L::kCount;
#pragma GCC unroll 16
          for (int i = 0; i < kRows; ++i) {
            if (sum.start != nullptr) {
              acc[i] += L::all(*sum.start);
            }
            L::write(sum.y + (row + i) * sum.y_row_step + column, acc[i], count);
          }
        }
      });
}

}  // namespace

template <class T>
void sum_windows(const WindowSum<T>& given) {
  if constexpr (sizeof(T) == sizeof(float)) {
    WindowSum<T> sum = given;
    if (sum.x_row_step == -sum.grid_step) {  // last row first
      sum.x += (sum.rows - 1) * sum.x_row_step;
      sum.y += (sum.rows - 1) * sum.y_row_step;
      sum.x_row_step = -sum.x_row_step;
      sum.y_row_step = -sum.y_row_step;
    }
    const bool is_dense = sum.x_row_step == sum.grid_step;
    const bool is_strided = sum.x_row_step == 2 * sum.grid_step;
    if (sum.grid_columns == 3 && sum.depth == 9 && (is_dense || is_strided)) {
      return is_dense ? sum_grid<3, 3, 1>(sum) : sum_grid<3, 3, 2>(sum);
    }
    if (sum.grid_columns == 5 && sum.depth == 25 && (is_dense || is_strided)) {
      return is_dense ? sum_grid<5, 5, 1>(sum) : sum_grid<5, 5, 2>(sum);
    }
  }
  sum_any(given);
}

template void sum_windows<float>(const WindowSum<float>&);
template void sum_windows<double>(const WindowSum<double>&);

}  // namespace hearth::cpu::HEARTH_CPU_ISA
