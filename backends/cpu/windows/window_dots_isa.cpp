#include "backends/cpu/products/gemm_vector.hpp"
#include "window_loops_isa.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

// Rows of a block, and vectors of a row that are added before the next row.
constexpr int kBlockRows = 4;
constexpr std::int64_t kChunkVectors = 32;

template <class T>
using Mask = decltype(Vector<T>{} == Vector<T>{});

template <class T>
[[gnu::always_inline]] inline Vector<T> read(const T* from, Mask<T> mask) {
  return __builtin_bit_cast(Vector<T>, __builtin_bit_cast(Mask<T>, load(from)) & mask);
}

// Lanes of elements of a row; the other ones must not count: infinity times 0 is NaN.
template <class T>
[[gnu::always_inline]] inline Mask<T> first_lanes(std::int64_t count) {
  Mask<T> mask;
  for (int lane = 0; lane < kLanes<T>; ++lane) {
    mask[lane] = lane < count ? -1 : 0;
  }
  return mask;
}

// Adds kRows rows of one vector, with the taps of a grid.
template <class T, int kHigh, int kWide, int kStride, int kRows, class Read>
[[gnu::always_inline]] inline void add_grid(const WindowDots<T>& dots,
                                            const T* x,
                                            const T* grad,
                                            Vector<T> (&acc)[std::size_t{kHigh * kWide}],
                                            const Read& read_x) {
  Vector<T> g[std::size_t{kRows}];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    g[i] = load(grad + i * dots.grad_row_step);
  }
#pragma GCC unroll 32
  for (int r = 0; r < kStride * (kRows - 1) + kHigh; ++r) {
#pragma GCC unroll 8
    for (int b = 0; b < kWide; ++b) {
      const Vector<T> value = read_x(x + r * dots.grid_step + dots.offsets[b]);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const int a = r - kStride * i;
        if (a >= 0 && a < kHigh) {
          acc[a * kWide + b] = multiply_add<T>(value, g[i], acc[a * kWide + b]);
        }
      }
    }
  }
}

// Adds kRows rows of one vector, with kTaps taps.
template <class T, int kTaps, int kRows, class Read>
[[gnu::always_inline]] inline void add_any(const WindowDots<T>& dots,
                                           const T* x,
                                           const T* grad,
                                           Vector<T> (&acc)[std::size_t{kTaps}],
                                           const Read& read_x) {
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
    const Vector<T> g = load(grad + i * dots.grad_row_step);
#pragma GCC unroll 16
    for (int t = 0; t < kTaps; ++t) {
      acc[t] = multiply_add<T>(read_x(x + i * dots.x_row_step + dots.offsets[t]), g, acc[t]);
    }
  }
}

// The walk over chunks of columns, blocks of rows and vectors. `add(rows, x, grad, acc, read)`.
template <class T, int kTaps, class Add>
[[gnu::always_inline]] inline std::int64_t walk(const WindowDots<T>& dots,
                                                std::int64_t terms,
                                                const Add& add) {
  Vector<T> acc[std::size_t{kTaps}];
#pragma GCC unroll 32
  for (int t = 0; t < kTaps; ++t) {
    acc[t] = load(dots.lanes + t * kLanes<T>);
  }
  const auto plain = [](const T* from) __attribute__((always_inline)) {
    return load(from);
  };
  constexpr std::int64_t kChunk = kChunkVectors * kLanes<T>;
  for (std::int64_t begin = 0; begin < dots.columns; begin += kChunk) {
    const std::int64_t end = begin + kChunk < dots.columns ? begin + kChunk : dots.columns;
    const std::int64_t full = begin + (end - begin) / kLanes<T> * kLanes<T>;
    const Mask<T> mask = first_lanes<T>(end - full);
    const auto masked = [&](const T* from) __attribute__((always_inline)) {
      return read(from, mask);
    };
    const std::int64_t vectors = (end - begin + kLanes<T> - 1) / kLanes<T>;
    std::int64_t row = 0;
    while (row < dots.rows) {
      const int rows = row + kBlockRows <= dots.rows ? kBlockRows : 1;
      if (terms + rows * vectors > kMostLaneTerms) {
#pragma GCC unroll 32
        for (int t = 0; t < kTaps; ++t) {
          dots.totals[t] += static_cast<double>(sum_lanes<T>(acc[t]));
          acc[t] = Vector<T>{};
        }
        terms = 0;
      }
      terms += rows * vectors;
      const T* x = dots.x + row * dots.x_row_step + begin;
      const T* grad = dots.grad + row * dots.grad_row_step + begin;
      if (rows == kBlockRows) {
        std::int64_t column = begin;
        for (; column < full; column += kLanes<T>, x += kLanes<T>, grad += kLanes<T>) {
          add.template operator()<kBlockRows>(x, grad, acc, plain);
        }
        if (column < end) {
          add.template operator()<kBlockRows>(x, grad, acc, masked);
        }
      } else {
        for (std::int64_t column = begin; column < end;
             column += kLanes<T>, x += kLanes<T>, grad += kLanes<T>) {
          if (column < full) {
            add.template operator()<1>(x, grad, acc, plain);
          } else {
            add.template operator()<1>(x, grad, acc, masked);
          }
        }
      }
      row += rows;
    }
  }
#pragma GCC unroll 32
  for (int t = 0; t < kTaps; ++t) {
    store(dots.lanes + t * kLanes<T>, acc[t]);
  }
  return terms;
}

template <class T, int kHigh, int kWide, int kStride>
std::int64_t dot_grid(const WindowDots<T>& dots, std::int64_t terms) {
  return walk<T, kHigh * kWide>(
      dots,
      terms,
      [&]<int kRows>(const T* x,
                     const T* grad,
                     Vector<T>(&acc)[std::size_t{kHigh * kWide}],
                     const auto& read_x) __attribute__((always_inline)) {
        add_grid<T, kHigh, kWide, kStride, kRows>(dots, x, grad, acc, read_x);
      });
}

template <class T, int kTaps>
std::int64_t dot_some(const WindowDots<T>& dots, std::int64_t terms) {
  return walk<T, kTaps>(
      dots,
      terms,
      [&]<int kRows>(
          const T* x, const T* grad, Vector<T>(&acc)[std::size_t{kTaps}], const auto& read_x)
          __attribute__((always_inline)) { add_any<T, kTaps, kRows>(dots, x, grad, acc, read_x); });
}

}  // namespace

template <class T>
std::int64_t dot_windows(const WindowDots<T>& given, std::int64_t terms) {
  if constexpr (sizeof(T) == sizeof(float)) {
    const bool is_dense = given.x_row_step == given.grid_step;
    const bool is_strided = given.x_row_step == 2 * given.grid_step;
    if (given.grid_columns == 3 && given.taps == 9 && (is_dense || is_strided)) {
      return is_dense ? dot_grid<T, 3, 3, 1>(given, terms) : dot_grid<T, 3, 3, 2>(given, terms);
    }
#ifdef __AVX512F__  // 25 sums need its registers
    if (given.grid_columns == 5 && given.taps == 25 && (is_dense || is_strided)) {
      return is_dense ? dot_grid<T, 5, 5, 1>(given, terms) : dot_grid<T, 5, 5, 2>(given, terms);
    }
#endif
  }
  constexpr std::int64_t kMany = 8;
  WindowDots<T> dots = given;
  std::int64_t after = terms;
  while (dots.taps > 0) {
    const std::int64_t taken = dots.taps >= kMany ? kMany : dots.taps >= 4 ? 4 : 1;
    after = taken == kMany ? dot_some<T, kMany>(dots, terms)
            : taken == 4   ? dot_some<T, 4>(dots, terms)
                           : dot_some<T, 1>(dots, terms);
    dots.taps -= taken;
    dots.offsets += taken;
    dots.lanes += taken * kLanes<T>;
    dots.totals += taken;
  }
  return after;
}

template <class T>
void finish_dots(T* lanes, std::int64_t taps, double* totals) {
  for (std::int64_t t = 0; t < taps; ++t, lanes += kLanes<T>) {
    totals[t] += static_cast<double>(sum_lanes<T>(load(lanes)));
    store(lanes, Vector<T>{});
  }
}

template <class T>
constexpr WindowLoops<T> kLoops = {
    .vector_columns = kLanes<T>,
    .copy = &copy_planes<T>,
    .spread = &spread<T>,
    .sum = &sum_windows<T>,
    .dots = &dot_windows<T>,
    .finish_dots = &finish_dots<T>,
};

const WindowLoops<float> float_windows_table = kLoops<float>;
const WindowLoops<double> double_windows_table = kLoops<double>;

}  // namespace hearth::cpu::HEARTH_CPU_ISA
