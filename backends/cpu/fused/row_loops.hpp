// The inner loops of softmax and related kinds: one row at a time if the axis is contiguous, else
// strips of neighbouring rows. Outputs may equal inputs. Sums are kept in f64 from block to block.
// Private to backends/cpu. Threads: any; pure functions on the given memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <cstdint>

namespace hearth::cpu {

/// Maximum and sum of a row of logits.
struct RowStatistics {
  double top = 0;  ///< The largest element.
  double sum = 0;  ///< The sum of exp(x - top).
};

/// Most columns of a strip.
inline constexpr std::int64_t kMaxStrip = 512;

template <class T>
struct RowLoops {
  RowStatistics (*statistics)(const T* in, std::int64_t count);
  /// out = exp(in - top) / sum.
  RowStatistics (*softmax)(T* out, const T* in, std::int64_t count);
  void (*log_softmax)(T* out, const T* in, std::int64_t count);
  using Backward = void (*)(T* out, const T* grad, const T* y, std::int64_t count);
  Backward softmax_backward;
  Backward log_softmax_backward;
  /// out = grad · (probabilities - [target]).
  void (*cross_entropy_backward)(
      T* out, const T* probabilities, T grad, std::int64_t target, std::int64_t count);

  // Strips: `width` ≤ kMaxStrip adjacent lines, each of `length` elements that are `step` apart.
  using Strip =
      void (*)(T* out, const T* in, std::int64_t length, std::int64_t step, std::int64_t width);
  using BackwardStrip = void (*)(T* out,
                                 const T* grad,
                                 const T* y,
                                 std::int64_t length,
                                 std::int64_t step,
                                 std::int64_t width);
  Strip softmax_strip;
  Strip log_softmax_strip;
  BackwardStrip softmax_backward_strip;
  BackwardStrip log_softmax_backward_strip;
};

struct RowTables {
  RowLoops<float> f32;
  RowLoops<double> f64;

  template <class T>
  [[nodiscard]] const RowLoops<T>& of() const noexcept {
    if constexpr (sizeof(T) == sizeof(float)) {
      return f32;
    } else {
      return f64;
    }
  }
};
HEARTH_CPU_ISA_TABLE(RowTables, row_loops);

}  // namespace hearth::cpu
