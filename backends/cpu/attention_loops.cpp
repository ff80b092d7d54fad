#include "attention_loops.hpp"

#include "vector_folds.hpp"
#include "vector_math.hpp"

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

template <class T>
void exponentials(T* row, std::int64_t count, T less) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    row[i] = exponential(row[i] - less);
  }
}

// The last elements of a row, filled up with minus infinity: a causal mask leaves rows of every
// length, and what does not fill a vector would go one by one.
template <class T>
struct Rest {
  alignas(64) T values[kLaneCount<T>];
  T* row;
  std::int64_t count;

  Rest(T* from, std::int64_t size) : row(from + size / kLanes<T> * kLanes<T>) {
    count = size % kLanes<T>;
    for (T& value : values) {
      value = -std::numeric_limits<T>::infinity();
    }
    std::memcpy(values, row, static_cast<std::size_t>(count) * sizeof(T));
  }
  void write() const { std::memcpy(row, values, static_cast<std::size_t>(count) * sizeof(T)); }
};

// As max_of(), without its loops over single lanes, which take longer than a short row.
template <class T>
T top_of(const T* row, std::int64_t whole, const Rest<T>& rest) {
  using Vector = typename Lanes<T>::Vector;
  typedef T Half __attribute__((vector_size(32), may_alias));
  typedef T Quarter __attribute__((vector_size(16), may_alias));
  Vector top = *reinterpret_cast<const Vector*>(rest.values);
  for (std::int64_t i = 0; i < whole; i += kLanes<T>) {
    const Vector x = *reinterpret_cast<const Vector*>(row + i);
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
AttentionRow<T> weigh(T* row, const T* added, std::int64_t count, T top_before) {
  if (added != nullptr) {
    add(row, added, count);
  }
  Rest<T> rest(row, count);
  const std::int64_t whole = count - rest.count;
  const T top = larger(top_before, top_of(row, whole, rest));
  if (top == -std::numeric_limits<T>::infinity()) {
    clear(row, count);
    return {top, 0};
  }
  double sum = 0;
  for (std::int64_t begin = 0; begin < whole; begin += kPiece) {
    const std::int64_t length = whole - begin < kPiece ? whole - begin : kPiece;
    exponentials(row + begin, length, top);
    sum += sum_of(row + begin, length);
  }
  if (rest.count > 0) {
    exponentials(rest.values, kLanes<T>, top);
    sum += sum_of(rest.values, kLanes<T>);
    rest.write();
  }
  return {top, sum};
}

template <class T>
void weigh_again(T* row, const T* added, std::int64_t count, T log_sum) {
  if (log_sum == -std::numeric_limits<T>::infinity()) {
    clear(row, count);
    return;
  }
  if (added != nullptr) {
    add(row, added, count);
  }
  Rest<T> rest(row, count);
  exponentials(row, count - rest.count, log_sum);
  if (rest.count > 0) {
    exponentials(rest.values, kLanes<T>, log_sum);
    rest.write();
  }
}

template <class T>
void of_scores(T* of_weights, const T* weights, std::int64_t count, T mean) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    of_weights[i] = weights[i] * (of_weights[i] - mean);
  }
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
