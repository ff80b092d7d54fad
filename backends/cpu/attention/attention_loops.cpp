#include "attention_loops.hpp"

#include "backends/cpu/fused/vector_folds.hpp"
#include "backends/cpu/machine/vector_math.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

constexpr std::int64_t kPiece = 1024;  // stays in L1 between two loops

[[gnu::always_inline]] inline float exponential(float x) noexcept {
  return exp_f32(x);
}
[[gnu::always_inline]] inline double exponential(double x) noexcept {
  return std::exp(x);
}

template <class T>
void add(T* row, const T* other, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    row[i] += other[i];
  }
}

template <class T>
void scale(T* row, T factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    row[i] *= factor;
  }
}

template <class T>
void clear(T* row, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    row[i] = T{0};
  }
}

// Processes whole cache lines, so no remainder loop is needed.
template <class T>
void exponentials(T* row, std::int64_t lines, T less) {
  for (; lines > 0; --lines, row += kLanes<T>) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < kLanes<T>; ++i) {
      row[i] = exponential(row[i] - less);
    }
  }
}

// Computes exp(score - top) times a factor, for scores of at most `top`. A NaN score is also in the
// factor.
template <class T>
void shares(T* row, std::int64_t lines, T top, T share) {
  for (; lines > 0; --lines, row += kLanes<T>) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < kLanes<T>; ++i) {
      const T below = row[i] - top;
      row[i] = exponential(below < 0 ? below : T{0}) * share;
    }
  }
}

// Fills the line in which a row ends, and returns the number of lines of the row. A causal mask
// leaves rows of every length, and a remainder would run one element at a time.
template <class T>
[[gnu::always_inline]] inline std::int64_t fill_line(T* row, std::int64_t count, T with) {
  constexpr std::int64_t kMost = kLanes<T>;
  const std::int64_t whole = count / kMost;
  const auto rest = static_cast<T>(count % kMost);
  if (count % kMost == 0) {
    return whole;
  }
  T* const line = row + whole * kMost;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < kMost; ++i) {
    line[i] = static_cast<T>(i) < rest ? line[i] : with;
  }
  return whole + 1;
}

// Maximum, like max_of(), without its loops over single lanes, which take longer than a short row.
template <class T>
T top_of(const T* row, std::int64_t lines) {
  using Vector = typename Lanes<T>::Vector;
  typedef T Half __attribute__((vector_size(32), may_alias));
  typedef T Quarter __attribute__((vector_size(16), may_alias));
  Vector top = *reinterpret_cast<const Vector*>(row);
  for (std::int64_t line = 1; line < lines; ++line) {
    const Vector x = *reinterpret_cast<const Vector*>(row + line * kLanes<T>);
    top = ((x > top) | (x != x)) ? x : top;
  }
  Half half[2];
  std::memcpy(half, &top, sizeof(top));
  const Half of_half = ((half[1] > half[0]) | (half[1] != half[1])) ? half[1] : half[0];
  Quarter quarter[2];
  std::memcpy(quarter, &of_half, sizeof(of_half));
  const Quarter last =
      ((quarter[1] > quarter[0]) | (quarter[1] != quarter[1])) ? quarter[1] : quarter[0];
  T best = last[0];
  for (std::size_t i = 1; i < sizeof(last) / sizeof(T); ++i) {
    best = larger(best, static_cast<T>(last[i]));
  }
  return best;
}

template <class T>
AttentionRow<T> weigh(
    T* row, const T* added, std::int64_t count, std::int64_t width, T top_before) {
  if (added != nullptr) {
    add(row, added, count);
  }
  const std::int64_t lines = fill_line(row, count, -std::numeric_limits<T>::infinity());
  const std::int64_t seen = lines * kLanes<T>;
  clear(row + seen, width - seen);
  const T top = lines == 0 ? top_before : larger(top_before, top_of(row, lines));
  if (top == -std::numeric_limits<T>::infinity()) {
    clear(row, seen);
    return {top, 0};
  }
  exponentials(row, lines, top);
  return {top, sum_of(row, seen)};
}

template <class T>
void weigh_again(T* row, const T* added, std::int64_t count, std::int64_t width, T top, T share) {
  if (share == 0) {
    clear(row, width);
    return;
  }
  if (added != nullptr) {
    add(row, added, count);
  }
  const std::int64_t lines = fill_line(row, count, -std::numeric_limits<T>::infinity());
  clear(row + lines * kLanes<T>, width - lines * kLanes<T>);
  shares(row, lines, top, share);
}

template <class T>
void of_scores(T* of_weights, const T* weights, std::int64_t count, std::int64_t width, T mean) {
  const std::int64_t lines = fill_line(of_weights, count, T{0});
#pragma GCC ivdep
  for (std::int64_t i = 0; i < lines * kLanes<T>; ++i) {
    of_weights[i] = weights[i] * (of_weights[i] - mean);
  }
  clear(of_weights + lines * kLanes<T>, width - lines * kLanes<T>);
}

template <class T>
double dot(const T* a, const T* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    alignas(64) T products[kPiece];
    const std::int64_t length = count - begin < kPiece ? count - begin : kPiece;
    for (std::int64_t i = 0; i < length; ++i) {
      products[i] = a[begin + i] * b[begin + i];
    }
    sum += sum_of(products, length);
  }
  return sum;
}

template <class T>
constexpr AttentionLoops<T> row_loops_of() {
  return {weigh<T>, weigh_again<T>, of_scores<T>, scale<T>, add<T>, dot<T>};
}

}  // namespace

extern const AttentionTables attention_loops_table = {row_loops_of<float>(),
                                                      row_loops_of<double>()};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
