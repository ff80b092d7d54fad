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
  std::size_t merged = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (merged > 0) {
      Axis& last = list[merged - 1];
      if (last.is_kept == list[i].is_kept && last.step == list[i].step * list[i].size &&
          last.result_step == list[i].result_step * list[i].size) {
        last = Axis{.size = last.size * list[i].size,
                    .step = list[i].step,
                    .result_step = list[i].result_step,
                    .is_kept = last.is_kept};
        continue;
      }
    }
    list[merged++] = list[i];
  }
  keep.operand_count = 2;
  fold.operand_count = 1;
  if (merged > 0) {
    const Axis& inner = list[merged - 1];
    inner_size = inner.size;
    inner_step = inner.step;
    inner_result_step = inner.result_step;
    inner_is_kept = inner.is_kept;
    --merged;
  }
  std::int64_t expected = inner_is_kept ? inner_size : 1;
  results_are_in_order = !inner_is_kept || inner_result_step == 1;
  for (std::size_t i = merged; i-- > 0;) {
    if (list[i].is_kept) {
      results_are_in_order = results_are_in_order && list[i].result_step == expected;
      expected *= list[i].size;
    }
  }
  for (std::size_t i = 0; i < merged; ++i) {
    const Axis& axis = list[i];
    append(axis.is_kept ? keep : fold, axis.size, axis.step, axis.result_step);
    (axis.is_kept ? keep_count : fold_count) *= axis.size;
  }
  append(keep, 1, 0, 0);
  append(fold, 1, 0, 0);
}

std::int64_t ReductionPlan::result_offset(std::int64_t index) const noexcept {
  const std::int64_t width = inner_is_kept ? inner_size : 1;
  return Place(keep, index / width).offset[1] + index % width * inner_result_step;
}

}  // namespace hearth::cpu
