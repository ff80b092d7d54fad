#include "window_loops_isa.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

template <class L, class T>
[[gnu::always_inline]] inline void write_columns(T* to,
                                                 typename L::Value value,
                                                 std::int64_t left) {
  if (left >= L::kCount) {
    L::write(to, value);
  } else {
    L::write_part(to, value, static_cast<int>(left));
  }
}

// kRows rows of a sum whose offsets are a grid of kHigh × kWide taps; rows of y are kStride rows of
// taps apart. Each row of x is read once for all rows of y that it serves. The order of the rows
// keeps that of the taps.
template <class T, class L, int kHigh, int kWide, int kStride, int kRows>
[[gnu::always_inline]] inline void sum_rows(
    const WindowSum<T>& sum,
    const T* x,
    const typename L::Value (&w)[std::size_t{kHigh * kWide}],
    typename L::Value start,
    T* y,
    std::int64_t left) {
  std::int64_t offsets[std::size_t{kWide}];
#pragma GCC unroll 8
  for (int b = 0; b < kWide; ++b) {
    offsets[b] = sum.offsets[b];
  }
  typename L::Value acc[std::size_t{kRows}] = {};
#pragma GCC unroll 32
  for (int r = 0; r < kStride * (kRows - 1) + kHigh; ++r, x += sum.grid_step) {
    keep(x);
#pragma GCC unroll 8
    for (int b = 0; b < kWide; ++b) {
      typename L::Value value = L::read(x + offsets[b]);
      keep(value);
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
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      acc[i] += start;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    write_columns<L>(y + i * sum.y_row_step, acc[i], left);
  }
}

// Rows in blocks of 8, 7 or 4. The last block overlaps the one before, which gives the same bits.
template <class RunBlock>
[[gnu::always_inline]] inline void for_blocks(std::int64_t rows, const RunBlock& run_block) {
  std::int64_t row = 0;
  if (rows % 8 != 0 && rows % 7 == 0) {
    for (; row < rows; row += 7) {
      run_block.template operator()<7>(row);
    }
    return;
  }
  for (; row + 8 <= rows; row += 8) {
    run_block.template operator()<8>(row);
  }
  for (; row + 4 <= rows; row += 4) {
    run_block.template operator()<4>(row);
  }
  if (row < rows && rows >= 4) {
    run_block.template operator()<4>(rows - 4);
    return;
  }
  for (; row < rows; ++row) {
    run_block.template operator()<1>(row);
  }
}

// Columns [begin, end) of all planes.
template <class T, class L, int kHigh, int kWide, int kStride>
[[gnu::always_inline]] inline void sum_columns(const WindowSum<T>& sum,
                                               std::int64_t begin,
                                               std::int64_t end) {
  for (std::int64_t plane = 0; plane < sum.planes; ++plane) {
    const T* const weights = sum.w + plane * sum.w_plane_step;
    const T* const x = sum.x + plane * sum.x_plane_step;
    T* const y = sum.y + plane * sum.y_plane_step;
    typename L::Value w[std::size_t{kHigh * kWide}];
#pragma GCC unroll 32
    for (int k = 0; k < kHigh * kWide; ++k) {
      w[k] = L::all(weights[sum.places[k]]);
    }
    const typename L::Value start =
        sum.start == nullptr ? typename L::Value{} : L::all(sum.start[plane * sum.start_step]);
    for_blocks(
        sum.rows, [&]<int kRows>(std::int64_t row) __attribute__((always_inline)) {
          for (std::int64_t column = begin; column < end; column += L::kCount) {
            sum_rows<T, L, kHigh, kWide, kStride, kRows>(sum,
                                                         x + row * sum.x_row_step + column,
                                                         w,
                                                         start,
                                                         y + row * sum.y_row_step + column,
                                                         end - column);
          }
        });
  }
}

template <int kHigh, int kWide, int kStride>
void sum_grid(const WindowSum<float>& sum) {
#ifdef __AVX512F__
  constexpr std::int64_t kHalf = Half8::kCount;
  const std::int64_t rest = sum.columns % (2 * kHalf);
  const std::int64_t whole = rest == 0 || rest > kHalf ? sum.columns : sum.columns - rest;
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
  for (std::int64_t plane = 0; plane < sum.planes; ++plane) {
    const T* const weights = sum.w + plane * sum.w_plane_step;
    const T* const x = sum.x + plane * sum.x_plane_step;
    T* const y = sum.y + plane * sum.y_plane_step;
    for_blocks(
        sum.rows, [&]<int kRows>(std::int64_t row) __attribute__((always_inline)) {
          for (std::int64_t column = 0; column < sum.columns; column += L::kCount) {
            const T* const first = x + row * sum.x_row_step + column;
            Vector<T> acc[std::size_t{kRows}] = {};
            for (std::int64_t k = 0; k < sum.depth; ++k) {
              const Vector<T> w = L::all(weights[sum.places[k]]);
              const T* const from = first + sum.offsets[k];
#pragma GCC unroll 16
              for (int i = 0; i < kRows; ++i) {
                acc[i] = L::fma(L::read(from + i * sum.x_row_step), w, acc[i]);
              }
            }
#pragma GCC unroll 16
            for (int i = 0; i < kRows; ++i) {
              if (sum.start != nullptr) {
                acc[i] += L::all(sum.start[plane * sum.start_step]);
              }
              write_columns<L>(
                  y + (row + i) * sum.y_row_step + column, acc[i], sum.columns - column);
            }
          }
        });
  }
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
