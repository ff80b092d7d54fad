// The walk of a reduction over its input. Axes are sorted by step, merged where possible, and split
// into kept axes, folded axes, and the innermost one, along which loops run. Private to
// backends/cpu. Values. Threads: any. Invariant: every element of the input is (a row of keep) + (a
// row of fold) + (a place along the inner axis), once.
#pragma once

#include "backends/cpu/machine/collapse.hpp"

#include <hearth/backends/kernel.hpp>

#include <cstdint>

namespace hearth::cpu {

struct ReductionPlan {
  /// `axes` has a bit for each reduced axis. The input has at least one element.
  ReductionPlan(const TensorView& input, std::uint32_t axes) noexcept;

  // Rows in the sense of Place: the last axis of both spaces has size 1.
  Collapsed keep;  ///< Kept axes except the inner one; operand 0 is the input, 1 the result.
  Collapsed fold;  ///< Reduced axes except the inner one; operand 0 is the input.
  std::int64_t keep_count = 1;
  std::int64_t fold_count = 1;
  std::int64_t inner_size = 1;
  std::int64_t inner_step = 1;         ///< In the input.
  std::int64_t inner_result_step = 0;  ///< In the result.
  bool inner_is_kept = false;
  bool results_are_in_order =
      true;  ///< The order of keep rows, then kept inner places, is that of the result's elements.

  /// Returns the place of result number `index` (in the order of keep rows, then inner places).
  [[nodiscard]] std::int64_t result_offset(std::int64_t index) const noexcept;
};

}  // namespace hearth::cpu
