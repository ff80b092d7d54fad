#include "attention_loops.hpp"

#include "vector_folds.hpp"
#include "vector_math.hpp"

#include <cmath>
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

template <class T>
AttentionRow<T> weigh(T* row, const T* added, std::int64_t count, T top_before) {
  if (added != nullptr) {
    add(row, added, count);
  }
  const T top = count == 0 ? top_before : larger(top_before, max_of(row, count));
  if (top == -std::numeric_limits<T>::infinity()) {
    clear(row, count);
    return {top, 0};
  }
  double sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t length = count - begin < kPiece ? count - begin : kPiece;
    exponentials(row + begin, length, top);
    sum += sum_of(row + begin, length);
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
  exponentials(row, count, log_sum);
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
