#include "row_loops.hpp"

#include "backends/cpu/machine/vector_math.hpp"
#include "backends/cpu/machine/vector_math_512.hpp"
#include "vector_folds.hpp"

#include <cmath>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

constexpr std::int64_t kBlock =
    1024;  // stays in L1 between the loop that computes it and the loop that sums it

[[gnu::always_inline]] inline float exp_of(float x) noexcept {
  return exp_f32(x);
}
[[gnu::always_inline]] inline double exp_of(double x) noexcept {
  return std::exp(x);
}

// Computes exp(in - top), at most 1.
template <class T>
void falloff(T* out, const T* in, T top, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = exp_of(in[i] - top);
  }
}
#ifdef __AVX512F__
void falloff(float* out, const float* in, float top, std::int64_t count) {
  const __m512 all_top = _mm512_set1_ps(top);
  map_lanes(out, in, count, [all_top](__m512 x) { return exp_lanes(x - all_top); });
}
#endif

template <class T>
double exponentials(T* out, const T* in, T top, std::int64_t count) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t n = count - begin < kBlock ? count - begin : kBlock;
    T* const to = out + begin;
    const T* const from = in + begin;
    falloff(to, from, top, n);
    sum += sum_of(to, n);
  }
  return sum;
}

template <class T>
RowStatistics statistics(const T* in, std::int64_t count) {
  if (count == 0) {
    return {};
  }
  const T top = max_of(in, count);
  double sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    alignas(64) T block[kBlock];
    sum += exponentials(block, in + begin, top, count - begin < kBlock ? count - begin : kBlock);
  }
  return {static_cast<double>(top), sum};
}

template <class T>
void scale(T* out, T factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] *= factor;
  }
}

template <class T>
RowStatistics softmax(T* out, const T* in, std::int64_t count) {
  if (count == 0) {
    return {};
  }
  const T top = max_of(in, count);
  const double sum = exponentials(out, in, top, count);
  scale(out, static_cast<T>(1.0 / sum), count);
  return {static_cast<double>(top), sum};
}

template <class T>
void log_softmax(T* out, const T* in, std::int64_t count) {
  const RowStatistics row = statistics(in, count);
  const auto top = static_cast<T>(row.top);
  const auto log_sum = static_cast<T>(std::log(row.sum));
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = (in[i] - top) - log_sum;
  }
}

template <class T>
double dot(const T* a, const T* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    alignas(64) T block[kBlock];
    const std::int64_t n = count - begin < kBlock ? count - begin : kBlock;
    for (std::int64_t i = 0; i < n; ++i) {
      block[i] = a[begin + i] * b[begin + i];
    }
    sum += sum_of(block, n);
  }
  return sum;
}

template <class T>
void softmax_backward(T* out, const T* grad, const T* y, std::int64_t count) {
  const auto sum = static_cast<T>(dot(grad, y, count));
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = y[i] * (grad[i] - sum);
  }
}

template <class T>
void log_softmax_backward(T* out, const T* grad, const T* y, std::int64_t count) {
  const auto sum = static_cast<T>(sum_of(grad, count));
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = grad[i] - exp_of(y[i]) * sum;
  }
}

// A row whose loss does not count has the gradient 0, whatever its probabilities.
template <class T>
void cross_entropy_backward(
    T* out, const T* probabilities, T grad, std::int64_t target, std::int64_t count) {
  if (grad == T{0}) {
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = T{0};
    }
    return;
  }
  const T at_target = (probabilities[target] - T{1}) * grad;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = probabilities[i] * grad;
  }
  out[target] = at_target;
}

template <class T>
void tops_of(T* top, const T* in, std::int64_t length, std::int64_t step, std::int64_t width) {
  for (std::int64_t c = 0; c < width; ++c) {
    top[c] = in[c];
  }
  for (std::int64_t r = 1; r < length; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      top[c] = larger(top[c], in[r * step + c]);
    }
  }
}

template <class T>
void softmax_strip(
    T* out, const T* in, std::int64_t length, std::int64_t step, std::int64_t width) {
  T top[kMaxStrip];
  double sum[kMaxStrip] = {};
  tops_of(top, in, length, step, width);
  for (std::int64_t r = 0; r < length; ++r) {
    T* const to = out + r * step;
    const T* const from = in + r * step;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < width; ++c) {
      const T value = exp_of(from[c] - top[c]);
      to[c] = value;
      sum[c] += static_cast<double>(value);
    }
  }
  for (std::int64_t c = 0; c < width; ++c) {
    top[c] = static_cast<T>(1.0 / sum[c]);
  }
  for (std::int64_t r = 0; r < length; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      out[r * step + c] *= top[c];
    }
  }
}

template <class T>
void log_softmax_strip(
    T* out, const T* in, std::int64_t length, std::int64_t step, std::int64_t width) {
  T top[kMaxStrip];
  T log_sum[kMaxStrip];
  double sum[kMaxStrip] = {};
  tops_of(top, in, length, step, width);
  for (std::int64_t r = 0; r < length; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      sum[c] += static_cast<double>(exp_of(in[r * step + c] - top[c]));
    }
  }
  for (std::int64_t c = 0; c < width; ++c) {
    log_sum[c] = static_cast<T>(std::log(sum[c]));
  }
  for (std::int64_t r = 0; r < length; ++r) {
    T* const to = out + r * step;
    const T* const from = in + r * step;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < width; ++c) {
      to[c] = (from[c] - top[c]) - log_sum[c];
    }
  }
}

template <class T>
void softmax_backward_strip(
    T* out, const T* grad, const T* y, std::int64_t length, std::int64_t step, std::int64_t width) {
  double sum[kMaxStrip] = {};
  for (std::int64_t r = 0; r < length; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      sum[c] += static_cast<double>(grad[r * step + c] * y[r * step + c]);
    }
  }
  for (std::int64_t r = 0; r < length; ++r) {
    T* const to = out + r * step;
    const T* const g = grad + r * step;
    const T* const from = y + r * step;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < width; ++c) {
      to[c] = from[c] * (g[c] - static_cast<T>(sum[c]));
    }
  }
}

template <class T>
void log_softmax_backward_strip(
    T* out, const T* grad, const T* y, std::int64_t length, std::int64_t step, std::int64_t width) {
  double sum[kMaxStrip] = {};
  for (std::int64_t r = 0; r < length; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      sum[c] += static_cast<double>(grad[r * step + c]);
    }
  }
  for (std::int64_t r = 0; r < length; ++r) {
    T* const to = out + r * step;
    const T* const g = grad + r * step;
    const T* const from = y + r * step;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < width; ++c) {
      to[c] = g[c] - exp_of(from[c]) * static_cast<T>(sum[c]);
    }
  }
}

template <class T>
constexpr RowLoops<T> loops() {
  return {statistics<T>,
          softmax<T>,
          log_softmax<T>,
          softmax_backward<T>,
          log_softmax_backward<T>,
          cross_entropy_backward<T>,
          softmax_strip<T>,
          log_softmax_strip<T>,
          softmax_backward_strip<T>,
          log_softmax_backward_strip<T>};
}

}  // namespace

extern const RowTables row_loops_table = {loops<float>(), loops<double>()};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
