// How a reduction walks its input: axes sorted by how far apart their elements lie, merged where
// possible, and split into those that are kept, those that are folded, and the innermost one, along
// which loops run. Private to backends/cpu. Values, any thread. Invariant: every element of the
// input is (a row of keep) + (a row of fold) + (a place along the inner axis), once.
#pragma once

#include "collapse.hpp"

#include <hearth/backends/kernel.hpp>

#include <cstdint>

namespace hearth::cpu {

struct ReductionPlan {
  /// `axes` has a bit for each axis that is reduced. The input has at least one element.
  ReductionPlan(const TensorView& input, std::uint32_t axes) noexcept;

  // Rows in the sense of Place: the last axis of both spaces has size 1.
  Collapsed keep;  ///< Kept axes but the inner one; operand 0 is the input, 1 the result.
  Collapsed fold;  ///< Reduced axes but the inner one; operand 0 is the input.
  std::int64_t keep_count = 1;
  std::int64_t fold_count = 1;
  std::int64_t inner_size = 1;
  std::int64_t inner_step = 1;         ///< In the input.
  std::int64_t inner_result_step = 0;  ///< In the result.
  bool inner_is_kept = false;
  bool results_are_in_order =
      true;  ///< Counting keep rows and the kept inner axis counts the result's elements.

  /// Where result number `index` (in the order of keep rows, then inner places) lies in the result.
  [[nodiscard]] std::int64_t result_offset(std::int64_t index) const noexcept;
};

}  // namespace hearth::cpu
