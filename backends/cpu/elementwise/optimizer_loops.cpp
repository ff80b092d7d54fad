#include "optimizer_loops.hpp"

#include <cmath>

namespace hearth::cpu::HEARTH_CPU_ISA {

namespace {

template <class T>
void sgd(const SgdArrays<T>& arrays, const SgdFactors& factors, std::int64_t count) {
  const SgdArrays<T> a = arrays;
  const auto rate = static_cast<T>(factors.learning_rate);
  const auto decay = static_cast<T>(factors.weight_decay);
  if (a.m == nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const T p = a.p[i];
      a.p_out[i] = p - rate * (a.g[i] + decay * p);
    }
    return;
  }
  const auto keep = static_cast<T>(factors.keep);
  const auto take = static_cast<T>(factors.take);
  const auto ahead = static_cast<T>(factors.ahead);
  const bool is_first = keep == T{0} && take == T{1};  // the old momentum may be anything, even NaN
  const bool is_nesterov = factors.nesterov;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const T p = a.p[i];
    const T g = a.g[i] + decay * p;
    const T m = is_first ? g : keep * a.m[i] + take * g;
    const T direction = is_nesterov ? g + ahead * m : m;
    a.m_out[i] = m;
    a.p_out[i] = p - rate * direction;
  }
}

template <class T>
void adam(const AdamArrays<T>& arrays, const AdamFactors& factors, std::int64_t count) {
  const AdamArrays<T> a = arrays;
  const bool is_decoupled = factors.is_decoupled;
  const auto decay = static_cast<T>(factors.decay);
  const auto beta1 = static_cast<T>(factors.beta1);
  const auto beta2 = static_cast<T>(factors.beta2);
  const auto rest1 = static_cast<T>(factors.rest1);
  const auto rest2 = static_cast<T>(factors.rest2);
  const auto step = static_cast<T>(factors.step);
  const auto correction = static_cast<T>(factors.correction);
  const auto epsilon = static_cast<T>(factors.epsilon);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const T before = a.p[i];
    const T p = is_decoupled ? decay * before : before;
    const T g = is_decoupled ? a.g[i] : a.g[i] + decay * before;
    const T m = beta1 * a.m[i] + rest1 * g;
    const T v = beta2 * a.v[i] + rest2 * g * g;
    a.m_out[i] = m;
    a.v_out[i] = v;
    a.p_out[i] = p - step * m / (std::sqrt(v) * correction + epsilon);
  }
}

}  // namespace

extern const OptimizerLoops optimizer_loops_table = {
    sgd<float>, sgd<double>, adam<float>, adam<double>};

}  // namespace hearth::cpu::HEARTH_CPU_ISA
