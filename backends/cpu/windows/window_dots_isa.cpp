#include "window_loops_isa.hpp"

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

// Vectors of a row that are added before the next block of rows.
constexpr std::int64_t kChunkVectors = 32;
// Rows of a block, where registers hold their gradients beside the sums of 3 × 3 taps.
#ifdef __AVX512F__
constexpr int kManyRows = 7;
#else
constexpr int kManyRows = 4;
#endif
constexpr int kSomeRows = 4;

// The taps of a grid. Each row of x is read once for all rows of the gradient that it meets.
template <class T, class L, int kHigh, int kWide, int kStride>
struct GridTaps {
  static constexpr int kTaps = kHigh * kWide;
  static constexpr int kMostRows = kTaps <= 9 ? kManyRows : kSomeRows;

  template <int kRows, class Read>
  [[gnu::always_inline]] static void add(const WindowDots<T>& dots,
                                         const T* x,
                                         const T* grad,
                                         typename L::Value (&acc)[std::size_t{kTaps}],
                                         const Read& read) {
    typename L::Value g[std::size_t{kRows}];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      g[i] = read(grad + i * dots.grad_row_step);
    }
#pragma GCC unroll 32
    for (int r = 0; r < kStride * (kRows - 1) + kHigh; ++r, x += dots.grid_step) {
      keep(x);
#pragma GCC unroll 8
      for (int b = 0; b < kWide; ++b) {
        typename L::Value value = read(x + dots.offsets[b]);
        keep(value);
#pragma GCC unroll 8
        for (int i = 0; i < kRows; ++i) {
          const int a = r - kStride * i;
          if (a >= 0 && a < kHigh) {
            acc[a * kWide + b] = L::fma(value, g[i], acc[a * kWide + b]);
          }
        }
      }
    }
  }
};

// Any kCount taps.
template <class T, class L, int kCount>
struct SomeTaps {
  static constexpr int kTaps = kCount;
  static constexpr int kMostRows = kSomeRows;

  template <int kRows, class Read>
  [[gnu::always_inline]] static void add(const WindowDots<T>& dots,
                                         const T* x,
                                         const T* grad,
                                         typename L::Value (&acc)[std::size_t{kTaps}],
                                         const Read& read) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const typename L::Value g = read(grad + i * dots.grad_row_step);
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) {
        acc[t] = L::fma(read(x + i * dots.x_row_step + dots.offsets[t]), g, acc[t]);
      }
    }
  }
};

// Adds kRows rows of columns [begin, end).
template <class Taps, int kRows, class T, class L>
[[gnu::always_inline]] inline void add_rows(const WindowDots<T>& dots,
                                            const T* x,
                                            const T* grad,
                                            std::int64_t columns,
                                            typename L::Value (&acc)[std::size_t{Taps::kTaps}],
                                            L /*lanes*/) {
  const auto whole = [](const T* from) __attribute__((always_inline)) {
    return L::read(from);
  };
  std::int64_t column = 0;
  for (; column + L::kCount <= columns; column += L::kCount) {
    Taps::template add<kRows>(dots, x + column, grad + column, acc, whole);
  }
  if (column < columns) {  // the row ends within this vector
    const typename L::Some some = L::some(static_cast<int>(columns - column));
    const auto part = [&](const T* from) __attribute__((always_inline)) {
      return L::read_some(from, some);
    };
    Taps::template add<kRows>(dots, x + column, grad + column, acc, part);
  }
}

// Moves the sums of the lanes to their totals.
template <class L, class Taps>
[[gnu::always_inline]] inline void flush(typename L::Value (&acc)[std::size_t{Taps::kTaps}],
                                         double* totals) {
#pragma GCC unroll 32
  for (int t = 0; t < Taps::kTaps; ++t) {
    totals[t] += static_cast<double>(L::sum(acc[t]));
    acc[t] = typename L::Value{};
  }
}

// Adds `rows` rows: Taps::kMostRows, kSomeRows or 1.
template <class Taps, class T, class L>
[[gnu::always_inline]] inline void add_block(const WindowDots<T>& dots,
                                             const T* x,
                                             const T* grad,
                                             std::int64_t rows,
                                             std::int64_t columns,
                                             typename L::Value (&acc)[std::size_t{Taps::kTaps}],
                                             L lanes) {
  if (rows == Taps::kMostRows) {
    add_rows<Taps, Taps::kMostRows>(dots, x, grad, columns, acc, lanes);
  } else if (rows == kSomeRows) {
    add_rows<Taps, kSomeRows>(dots, x, grad, columns, acc, lanes);
  } else {
    add_rows<Taps, 1>(dots, x, grad, columns, acc, lanes);
  }
}

// Walks over planes, chunks of columns and blocks of rows.
template <class T, class L, class Taps>
std::int64_t walk(const WindowDots<T>& dots, std::int64_t terms) {
  constexpr int kTaps = Taps::kTaps;
  constexpr std::int64_t kChunk = kChunkVectors * L::kCount;
  const std::int64_t most_rows = dots.rows % Taps::kMostRows == 0 ? Taps::kMostRows : kSomeRows;
  std::int64_t after = terms;
  for (std::int64_t plane = 0; plane < dots.planes; ++plane) {
    T* const lanes = dots.lanes + plane * dots.all_taps * kLanes<T>;
    double* const totals = dots.totals + plane * dots.all_taps;
    typename L::Value acc[std::size_t{kTaps}];
#pragma GCC unroll 32
    for (int t = 0; t < kTaps; ++t) {
      acc[t] = L::read(lanes + t * kLanes<T>);
    }
    after = terms;
    for (std::int64_t begin = 0; begin < dots.columns; begin += kChunk) {
      const std::int64_t columns = dots.columns - begin < kChunk ? dots.columns - begin : kChunk;
      const std::int64_t vectors = (columns + L::kCount - 1) / L::kCount;
      const T* x = dots.x + plane * dots.x_plane_step + begin;
      const T* grad = dots.grad + plane * dots.grad_plane_step + begin;
      for (std::int64_t row = 0; row < dots.rows;) {
        const std::int64_t rows = row + most_rows <= dots.rows ? most_rows : 1;
        if (after + rows * vectors > kMostLaneTerms) {
          flush<L, Taps>(acc, totals);
          after = 0;
        }
        after += rows * vectors;
        add_block<Taps>(dots, x, grad, rows, columns, acc, L{});
        row += rows;
        x += rows * dots.x_row_step;
        grad += rows * dots.grad_row_step;
      }
    }
#pragma GCC unroll 32
    for (int t = 0; t < kTaps; ++t) {
      L::write(lanes + t * kLanes<T>, acc[t]);
    }
  }
  return after;
}

template <int kHigh, int kWide, int kStride>
std::int64_t dot_grid(const WindowDots<float>& dots, std::int64_t terms) {
#ifdef __AVX512F__
  if (dots.columns <= Half8::kCount) {
    return walk<float, Half8, GridTaps<float, Half8, kHigh, kWide, kStride>>(dots, terms);
  }
#endif
  using L = Whole<float>;
  return walk<float, L, GridTaps<float, L, kHigh, kWide, kStride>>(dots, terms);
}

template <class T, int kTaps>
std::int64_t dot_some(const WindowDots<T>& dots, std::int64_t terms) {
  return walk<T, Whole<T>, SomeTaps<T, Whole<T>, kTaps>>(dots, terms);
}

// The taps in groups of 8, 4 and 1.
template <class T>
std::int64_t dot_groups(WindowDots<T> dots, std::int64_t terms) {
  constexpr std::int64_t kMany = 8;
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

}  // namespace

template <class T>
std::int64_t dot_windows(const WindowDots<T>& given, std::int64_t terms) {
  if constexpr (sizeof(T) == sizeof(float)) {
    const bool is_dense = given.x_row_step == given.grid_step;
    const bool is_strided = given.x_row_step == 2 * given.grid_step;
    if (given.grid_columns == 3 && given.taps == 9 && (is_dense || is_strided)) {
      return is_dense ? dot_grid<3, 3, 1>(given, terms) : dot_grid<3, 3, 2>(given, terms);
    }
#ifdef __AVX512F__  // 25 sums need its registers
    if (given.grid_columns == 5 && given.taps == 25 && (is_dense || is_strided)) {
      return is_dense ? dot_grid<5, 5, 1>(given, terms) : dot_grid<5, 5, 2>(given, terms);
    }
#endif
  }
  return dot_groups(given, terms);
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
#ifdef __AVX512F__
    .reads_exactly = true,
#else
    .reads_exactly = false,
#endif
    .copy = &copy_planes<T>,
    .spread = &spread<T>,
    .interleave = &interleave<T>,
    .sum = &sum_windows<T>,
    .dots = &dot_windows<T>,
    .finish_dots = &finish_dots<T>,
};

const WindowLoops<float> float_windows_table = kLoops<float>;
const WindowLoops<double> double_windows_table = kLoops<double>;

}  // namespace hearth::cpu::HEARTH_CPU_ISA
