// The inner loops of the random kinds. Element i uses its words of runtime/base/values/philox.hpp,
// so any cut gives equal values. Private to backends/cpu. Threads: any; pure functions on the given
// memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <cstdint>

namespace hearth::cpu {

struct RandomDraw {
  std::uint64_t seed = 0;
  std::uint64_t counter = 0;
  std::uint32_t limit = 0;  ///< philox::threshold(p)
  double a = 0;             ///< uniform: low; normal: mean
  double b = 1;      ///< uniform: high - low; normal: standard deviation; dropout: 1 / (1 - p)
  double first = 0;  ///< uniform: smallest and largest result
  double last = 0;
};

struct RandomLoops {
  /// Elements [begin, begin + count) of a + b·u, clamped to [first, last]; u in [0, 1) has the bits
  /// of the result's type. Product and sum are rounded separately, so that all backends give the
  /// same bits.
  using Uniform = void (*)(double* out,
                           std::int64_t count,
                           std::int64_t begin,
                           const RandomDraw& draw);
  Uniform uniform_f32;
  Uniform uniform_f64;
  Uniform uniform_f16;
  Uniform uniform_bf16;
  /// a + b·z with z standard normal.
  void (*normal_f32)(float* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw);
  void (*normal_f64)(double* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw);
  /// 1 where the Bernoulli draw hits, else 0.
  void (*hits)(std::uint8_t* out, std::int64_t count, std::int64_t begin, const RandomDraw& draw);
  /// 0 where the Bernoulli draw hits, else in·b. out may equal in.
  void (*dropout_f32)(
      float* out, const float* in, std::int64_t count, std::int64_t begin, const RandomDraw& draw);
  void (*dropout_f64)(double* out,
                      const double* in,
                      std::int64_t count,
                      std::int64_t begin,
                      const RandomDraw& draw);
};
HEARTH_CPU_ISA_TABLE(RandomLoops, random_loops);

}  // namespace hearth::cpu
