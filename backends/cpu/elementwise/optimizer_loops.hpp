// The inner loops of the optimizer updates: one pass over parameters, gradients and state. Outputs
// may equal inputs. Private to backends/cpu. Threads: any; pure functions on the given memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <cstdint>

namespace hearth::cpu {

/// Factors of sgd_step, computed once per call.
struct SgdFactors {
  double learning_rate = 0;
  double weight_decay = 0;
  double keep = 0;  ///< Factor of the old momentum: 0 at the first update, else `momentum`.
  double take = 1;  ///< Factor of the gradient: 1 at the first update, else 1 - dampening.
  /// nesterov: the direction is gradient + ahead·momentum; else `ahead` is 0 and the direction is
  /// the momentum.
  double ahead = 0;
  bool nesterov = false;
};

/// Factors of adam_step, computed once per call.
struct AdamFactors {
  bool is_decoupled = false;
  /// Decoupled: p is multiplied by it first. Else p·decay is added to the gradient.
  double decay = 0;
  double beta1 = 0;
  double rest1 = 1;  ///< 1 - beta1
  double beta2 = 0;
  double rest2 = 1;       ///< 1 - beta2
  double step = 0;        ///< learning_rate / (1 - beta1^t)
  double correction = 1;  ///< 1 / sqrt(1 - beta2^t)
  double epsilon = 0;
};

template <class T>
struct SgdArrays {
  T* p_out;
  T* m_out;  ///< null: no momentum
  const T* p;
  const T* g;
  const T* m;  ///< null: no momentum
};
template <class T>
struct AdamArrays {
  T* p_out;
  T* m_out;
  T* v_out;
  const T* p;
  const T* g;
  const T* m;
  const T* v;
};

struct OptimizerLoops {
  void (*sgd_f32)(const SgdArrays<float>& arrays, const SgdFactors& factors, std::int64_t count);
  void (*sgd_f64)(const SgdArrays<double>& arrays, const SgdFactors& factors, std::int64_t count);
  void (*adam_f32)(const AdamArrays<float>& arrays, const AdamFactors& factors, std::int64_t count);
  void (*adam_f64)(const AdamArrays<double>& arrays,
                   const AdamFactors& factors,
                   std::int64_t count);
};
HEARTH_CPU_ISA_TABLE(OptimizerLoops, optimizer_loops);

}  // namespace hearth::cpu
