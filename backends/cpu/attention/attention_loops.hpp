// The inner loops of attention, on one row of scores at a time. Private to backends/cpu. Threads:
// any; pure functions on the given memory.
#pragma once

#include "backends/cpu/machine/isa_table.hpp"

#include <cstdint>

namespace hearth::cpu {

/// Running maximum of a row of scores, and the sum of one piece.
template <class T>
struct AttentionRow {
  T top;       ///< Largest score so far; minus infinity if the row saw no key.
  double sum;  ///< Sum of exp(score - top) over this piece.
};

/// Row buffers hold whole lines. Elements from `count` to `width`, also whole lines, become 0, like
/// masked ones.
template <class T>
struct AttentionLoops {
  /// row = exp(row + added - top), where top is the maximum of the row and of `top_before`. added
  /// == nullptr adds nothing.
  AttentionRow<T> (*weigh)(
      T* row, const T* added, std::int64_t count, std::int64_t width, T top_before);
  /// row = exp(row + added - top) * share; 0 where the share is 0.
  void (*weigh_again)(
      T* row, const T* added, std::int64_t count, std::int64_t width, T top, T share);
  /// of_weights = weights * (of_weights - mean)
  void (*of_scores)(
      T* of_weights, const T* weights, std::int64_t count, std::int64_t width, T mean);
  void (*scale)(T* row, T factor, std::int64_t count);
  void (*add)(T* row, const T* other, std::int64_t count);
  double (*dot)(const T* a, const T* b, std::int64_t count);
};

struct AttentionTables {
  AttentionLoops<float> f32;
  AttentionLoops<double> f64;

  template <class T>
  [[nodiscard]] const AttentionLoops<T>& of() const noexcept {
    if constexpr (sizeof(T) == sizeof(float)) {
      return f32;
    } else {
      return f64;
    }
  }
};
HEARTH_CPU_ISA_TABLE(AttentionTables, attention_loops);

}  // namespace hearth::cpu
