#include "gemm_tiles_isa.hpp"
#include "gemm_vector.hpp"

#include <utility>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

// Products that a lane of the dot form sums before the lanes are joined in f64.
constexpr std::int64_t kLaneChain = 512;

// Columns per step of the dot form: as many as fit in registers beside `rows` vectors of x.
constexpr int dot_columns(int rows) {
#ifdef __AVX512F__
  return rows <= 2 ? 8 : rows <= 6 ? 4 : 3;
#else
  return rows == 1 ? 8 : rows == 2 ? 4 : rows == 3 ? 3 : rows == 4 ? 2 : 1;
#endif
}

// Computes sums over [begin, end) of the depth; the last range includes the tail, which fills no
// vector.
template <class T, class S, int kRows, int kColumns>
[[gnu::always_inline]] inline void dot_range(const Thin<T>& thin,
                                             const S* w,
                                             std::int64_t begin,
                                             std::int64_t end,
                                             T (&sums)[std::size_t{kRows}][std::size_t{kColumns}]) {
  Vector<T> acc[std::size_t{kRows}][std::size_t{kColumns}] = {};
  const std::int64_t whole = begin + (end - begin) / kLanes<T> * kLanes<T>;
  const int tail = static_cast<int>(end - whole);
  for (std::int64_t k = begin; k < whole; k += kLanes<T>) {
    Vector<T> x[std::size_t{kRows}];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      x[r] = load(thin.x + r * thin.x_step + k);
    }
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      const Vector<T> w_vector = load_wide(w + j * thin.w_step + k);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        acc[r][j] = multiply_add<T>(x[r], w_vector, acc[r][j]);
      }
    }
  }
  if (tail > 0) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      const Vector<T> w_vector = load_wide_part(w + j * thin.w_step + whole, tail);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        acc[r][j] =
            multiply_add<T>(load_part(thin.x + r * thin.x_step + whole, tail), w_vector, acc[r][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < kColumns; ++j) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[r][j] = sum_lanes<T>(acc[r][j]);
    }
  }
}

template <class T, class S, int kRows, int kColumns>
[[gnu::always_inline]] inline void dot_block(const Thin<T>& thin, const S* w, std::int64_t column) {
  constexpr std::int64_t kPart = kLaneChain * kLanes<T>;
  T sums[std::size_t{kRows}][std::size_t{kColumns}];
  if (thin.depth <= kPart) {
    dot_range<T, S, kRows, kColumns>(thin, w, 0, thin.depth, sums);
  } else {
    double totals[std::size_t{kRows}][std::size_t{kColumns}] = {};
    for (std::int64_t begin = 0; begin < thin.depth; begin += kPart) {
      const std::int64_t end = begin + kPart < thin.depth ? begin + kPart : thin.depth;
      dot_range<T, S, kRows, kColumns>(thin, w, begin, end, sums);
      for (int r = 0; r < kRows; ++r) {
        for (int j = 0; j < kColumns; ++j) {
          totals[r][j] += static_cast<double>(sums[r][j]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < kColumns; ++j) {
        sums[r][j] = static_cast<T>(totals[r][j]);
      }
    }
  }
  for (int j = 0; j < kColumns; ++j) {
    const T start = thin.start == nullptr ? T{} : thin.start[column + j];
    for (int r = 0; r < kRows; ++r) {
      thin.y[r * thin.y_step + column + j] = start + sums[r][j];
    }
  }
}

template <class T, class S, int kRows>
void dot_rows(const Thin<T>& thin) {
  constexpr int kColumns = dot_columns(kRows);
  const S* w = reinterpret_cast<const S*>(thin.w);
  const std::int64_t whole = thin.columns / kColumns * kColumns;
  for (std::int64_t step = 0; step < whole; step += kColumns) {
    const std::int64_t column = thin.backwards ? whole - kColumns - step : step;
    dot_block<T, S, kRows, kColumns>(thin, w + column * thin.w_step, column);
  }
  for (std::int64_t column = whole; column < thin.columns; ++column) {
    dot_block<T, S, kRows, 1>(thin, w + column * thin.w_step, column);
  }
}

// Rows of w per step of the axpy form: one load and store of y for this number of products.
constexpr int kDepth = 8;

template <class T, class S, int kRows, int kTaken>
[[gnu::always_inline]] inline void axpy_block(const Thin<T>& thin, const S* w, std::int64_t k) {
  const std::int64_t whole = thin.columns / kLanes<T> * kLanes<T>;
  const int tail = static_cast<int>(thin.columns - whole);
  for (std::int64_t column = 0; column < whole; column += kLanes<T>) {
    Vector<T> w_vectors[std::size_t{kTaken}];
#pragma GCC unroll 8
    for (int i = 0; i < kTaken; ++i) {
      w_vectors[i] = load_wide(w + i * thin.w_step + column);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      T* y = thin.y + r * thin.y_step + column;
      Vector<T> acc = load(y);
#pragma GCC unroll 8
      for (int i = 0; i < kTaken; ++i) {
        acc = multiply_add<T>(splat(thin.x[r * thin.x_step + k + i]), w_vectors[i], acc);
      }
      store(y, acc);
    }
  }
  for (int r = 0; r < kRows && tail > 0; ++r) {
    T* y = thin.y + r * thin.y_step + whole;
    Vector<T> acc = load_part(y, tail);
    for (int i = 0; i < kTaken; ++i) {
      acc = multiply_add<T>(splat(thin.x[r * thin.x_step + k + i]),
                            load_wide_part(w + i * thin.w_step + whole, tail),
                            acc);
    }
    store_part(y, acc, tail);
  }
}

template <class T, class S, int kRows>
void axpy_rows(const Thin<T>& thin) {
  const S* w = reinterpret_cast<const S*>(thin.w);
  for (int r = 0; r < kRows; ++r) {
    for (std::int64_t column = 0; column < thin.columns; ++column) {
      thin.y[r * thin.y_step + column] = thin.start == nullptr ? T{} : thin.start[column];
    }
  }
  std::int64_t k = 0;
  for (; k + kDepth <= thin.depth; k += kDepth) {
    axpy_block<T, S, kRows, kDepth>(thin, w + k * thin.w_step, k);
  }
  for (; k < thin.depth; ++k) {
    axpy_block<T, S, kRows, 1>(thin, w + k * thin.w_step, k);
  }
}

template <class T>
using ThinFn = void (*)(const Thin<T>&);

template <class T, class S, int... kIndex>
ThinFn<T> pick_dot(int rows, std::integer_sequence<int, kIndex...> /*all*/) {
  static constexpr ThinFn<T> kByRows[] = {&dot_rows<T, S, kIndex + 1>...};
  return kByRows[rows - 1];
}
template <class T, class S, int... kIndex>
ThinFn<T> pick_axpy(int rows, std::integer_sequence<int, kIndex...> /*all*/) {
  static constexpr ThinFn<T> kByRows[] = {&axpy_rows<T, S, kIndex + 1>...};
  return kByRows[rows - 1];
}

constexpr auto kAllRows = std::make_integer_sequence<int, kMaxThinRows>{};

}  // namespace

// More rows than fit in registers pass over w in groups, a strip of columns at a time. After the
// first group a strip is in the first-level cache, so w is read once. Bench: BM_Infer_Mlp/batch.
constexpr int kRegisterRows = 6;
constexpr std::int64_t kStripColumns = 16;

template <class T, class S>
void dot_strips(const Thin<T>& thin) {
  const int groups = (thin.rows + kRegisterRows - 1) / kRegisterRows;
  if (groups == 1) {
    pick_dot<T, S>(thin.rows, kAllRows)(thin);
    return;
  }
  const std::int64_t strips = (thin.columns + kStripColumns - 1) / kStripColumns;
  for (std::int64_t step = 0; step < strips; ++step) {
    const std::int64_t column = kStripColumns * (thin.backwards ? strips - 1 - step : step);
    for (int group = 0; group < groups; ++group) {
      const int row = thin.rows * group / groups;
      Thin<T> part = thin;
      part.rows = thin.rows * (group + 1) / groups - row;
      part.x += row * thin.x_step;
      part.y += row * thin.y_step + column;
      part.w += column * thin.w_step * static_cast<std::int64_t>(sizeof(S));
      part.start = thin.start == nullptr ? nullptr : thin.start + column;
      part.columns = thin.columns - column < kStripColumns ? thin.columns - column : kStripColumns;
      pick_dot<T, S>(part.rows, kAllRows)(part);
    }
  }
}

template <class T>
void thin_dot(const Thin<T>& thin, DType w) {
  if constexpr (sizeof(T) == 8) {
    dot_strips<T, double>(thin);
  } else if (w == DType::f16) {
    dot_strips<T, Half>(thin);
  } else if (w == DType::bf16) {
    dot_strips<T, Brain>(thin);
  } else {
    dot_strips<T, float>(thin);
  }
}

template <class T>
void thin_axpy(const Thin<T>& thin, DType w) {
  if constexpr (sizeof(T) == 8) {
    pick_axpy<T, double>(thin.rows, kAllRows)(thin);
  } else if (w == DType::f16) {
    pick_axpy<T, Half>(thin.rows, kAllRows)(thin);
  } else if (w == DType::bf16) {
    pick_axpy<T, Brain>(thin.rows, kAllRows)(thin);
  } else {
    pick_axpy<T, float>(thin.rows, kAllRows)(thin);
  }
}

template void thin_dot<float>(const Thin<float>&, DType);
template void thin_dot<double>(const Thin<double>&, DType);
template void thin_axpy<float>(const Thin<float>&, DType);
template void thin_axpy<double>(const Thin<double>&, DType);

}  // namespace hearth::cpu::HEARTH_CPU_ISA
