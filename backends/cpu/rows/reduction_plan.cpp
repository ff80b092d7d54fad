#include "reduction_plan.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace hearth::cpu {

namespace {

struct Axis {
  std::int64_t size = 1;
  std::int64_t step = 0;
  std::int64_t result_step = 0;
  bool is_kept = false;
};

// Sorts large steps first. Broadcast axes (step 0) come first of all: no loop gains from running
// along them.
bool is_farther(const Axis& a, const Axis& b) noexcept {
  if (a.step == 0 || b.step == 0) {
    return a.step == 0 && b.step != 0;
  }
  return std::abs(a.step) > std::abs(b.step);
}

void append(Collapsed& space,
            std::int64_t size,
            std::int64_t step,
            std::int64_t result_step) noexcept {
  const auto at = static_cast<std::size_t>(space.rank++);
  space.size[at] = size;
  space.stride[0][at] = step;
  space.stride[1][at] = result_step;
}

}  // namespace

ReductionPlan::ReductionPlan(const TensorView& input, std::uint32_t axes) noexcept {
  const Shape& shape = input.shape();
  std::array<Axis, kMaxRank> list;
  std::size_t count = 0;
  std::int64_t result_step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    const bool is_kept = (axes >> static_cast<unsigned>(axis) & 1U) == 0;
    if (shape[axis] != 1) {
      list[count++] = Axis{.size = shape[axis],
                           .step = input.strides()[static_cast<std::size_t>(axis)],
                           .result_step = is_kept ? result_step : 0,
                           .is_kept = is_kept};
    }
    result_step *= is_kept ? shape[axis] : 1;
  }
  std::reverse(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count));
  // An insertion sort is stable; there are at most eight axes.
  for (std::size_t i = 1; i < count; ++i) {
    for (std::size_t j = i; j > 0 && is_farther(list[j], list[j - 1]); --j) {
      std::swap(list[j], list[j - 1]);
    }
  }
  hearth::detail::MergedAxes<2> merged;  // operands: the input, the result
  merged.operand_count = 2;
  std::array<bool, kMaxRank> kept;  // by merged axis
  bool was_kept = false;
  for (std::size_t i = 0; i < count; ++i) {
    const Axis& next = list[i];
    const int first = next.is_kept == was_kept ? 0 : merged.rank;
    merged.append(
        next.size,
        [&](std::size_t operand) { return operand == 0 ? next.step : next.result_step; },
        first);
    was_kept = next.is_kept;
    kept[static_cast<std::size_t>(merged.rank) - 1] = was_kept;
  }
  keep.operand_count = 2;
  fold.operand_count = 1;
  auto outer = static_cast<std::size_t>(merged.rank);
  if (outer > 0) {
    --outer;
    inner_size = merged.size[outer];
    inner_step = merged.stride[0][outer];
    inner_result_step = merged.stride[1][outer];
    inner_is_kept = kept[outer];
  }
  std::int64_t expected = inner_is_kept ? inner_size : 1;
  results_are_in_order = !inner_is_kept || inner_result_step == 1;
  for (std::size_t i = outer; i-- > 0;) {
    if (kept[i]) {
      results_are_in_order = results_are_in_order && merged.stride[1][i] == expected;
      expected *= merged.size[i];
    }
  }
  for (std::size_t i = 0; i < outer; ++i) {
    append(kept[i] ? keep : fold, merged.size[i], merged.stride[0][i], merged.stride[1][i]);
    (kept[i] ? keep_count : fold_count) *= merged.size[i];
  }
  append(keep, 1, 0, 0);
  append(fold, 1, 0, 0);
}

std::int64_t ReductionPlan::result_offset(std::int64_t index) const noexcept {
  const std::int64_t width = inner_is_kept ? inner_size : 1;
  return Place(keep, index / width).offset[1] + index % width * inner_result_step;
}

}  // namespace hearth::cpu
