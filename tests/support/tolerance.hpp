// The allowed difference between a result and the oracle: one table for all tests, by element type
// and kind of op. Float types narrower than f32 are computed in f32 and rounded once at the store.
// Values, any thread.
#pragma once

#include <cmath>
#include <cstdint>

#include <hearth/runtime/base/dtype.hpp>

namespace hearth::testing {

enum class Precision : std::uint8_t {
  exact,     ///< Equal values: movement, comparisons, positions, integers.
  rounded,   ///< One or a few roundings: arithmetic, updates.
  function,  ///< A few units in the last place of an elementary function.
  sum,       ///< A sum of `length` terms of at most `term` in size, in any order.
  normal,    ///< Box-Muller: a logarithm, a root and an angle in turn.
};

struct Tolerance {
  double relative = 0;
  double absolute = 0;

  /// NaN accepts only NaN; an infinity accepts only itself.
  [[nodiscard]] bool accepts(double got, double want) const noexcept {
    if (got == want || (std::isnan(got) && std::isnan(want))) {
      return true;
    }
    return std::isfinite(want) && std::fabs(got - want) <= absolute + relative * std::fabs(want);
  }
};

/// Half the distance from 1 to the next larger value.
[[nodiscard]] constexpr double unit_roundoff(DType dtype) noexcept {
  switch (dtype) {
    case DType::f64:
      return 0x1p-53;
    case DType::f32:
      return 0x1p-24;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;
  }
}

/// `length` and `term` matter only for sums. Integers and bool are always exact.
[[nodiscard]] constexpr Tolerance tolerance(Precision precision,
                                            DType dtype,
                                            double length = 1,
                                            double term = 1) noexcept {
  if (precision == Precision::exact || !is_float(dtype)) {
    return {};
  }
  const bool narrow = dtype == DType::f16 || dtype == DType::bf16;
  const double inner = unit_roundoff(narrow ? DType::f32 : dtype);
  // The store may round the other way if the inner value is slightly off; subnormals have absolute
  // steps.
  const Tolerance store{.relative = narrow ? 2 * unit_roundoff(dtype) : 0,
                        .absolute = narrow ? 0x1p-24 : 0};
  switch (precision) {
    case Precision::function:
      return {.relative = store.relative + 16 * inner, .absolute = store.absolute + 4 * inner};
    case Precision::sum:
      return {.relative = store.relative + 16 * inner,
              .absolute = store.absolute + 2 * inner * (length + 4) * term};
    case Precision::normal:
      return {.relative = store.relative + 16 * inner, .absolute = store.absolute + 128 * inner};
    case Precision::rounded:
    default:
      return {.relative = store.relative + 4 * inner, .absolute = store.absolute};
  }
}

}  // namespace hearth::testing
