#include "view_layout.hpp"

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth {
namespace {

struct StridedShape {
  Shape shape;
  Strides strides{};
};

// Removes axes of size 1: their strides have no meaning and would look like gaps.
StridedShape without_ones(const detail::Layout& layout) {
  StridedShape kept;
  for (int axis = 0; axis < layout.shape.rank(); ++axis) {
    if (layout.shape[axis] != 1) {
      kept.strides[static_cast<std::size_t>(kept.shape.rank())] =
          layout.strides[static_cast<std::size_t>(axis)];
      kept.shape.push_back(layout.shape[axis]);
    }
  }
  return kept;
}

// Axes of the old and of the new shape that hold the same elements; the smallest such run.
struct AxisRun {
  int old_begin = 0;
  int old_end = 0;
  int new_begin = 0;
  int new_end = 0;
};

AxisRun run_from(int old_begin, int new_begin, const Shape& old_shape, const Shape& new_shape) {
  AxisRun run{old_begin, old_begin + 1, new_begin, new_begin + 1};
  std::int64_t old_size = old_shape[old_begin];
  std::int64_t new_size = new_shape[new_begin];
  while (old_size != new_size) {
    if (new_size < old_size) {
      new_size *= new_shape[run.new_end++];
    } else {
      old_size *= old_shape[run.old_end++];
    }
  }
  return run;
}

bool is_dense(const StridedShape& old, const AxisRun& run) {
  for (int axis = run.old_begin; axis + 1 < run.old_end; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (old.strides[i] != old.shape[axis + 1] * old.strides[i + 1]) {
      return false;
    }
  }
  return true;
}

// Joins runs of axes without gaps and splits them along the new shape. Fails if a new axis would
// cross a gap.
ViewLayout reshape_layout(const detail::Layout& from, const detail::Layout& to) {
  if (from.contiguous || to.shape.element_count() == 0) {
    return ViewLayout{.layout = to};
  }
  const StridedShape old = without_ones(from);
  Strides strides{};
  AxisRun run;
  while (run.old_end < old.shape.rank() && run.new_end < to.shape.rank()) {
    run = run_from(run.old_end, run.new_end, old.shape, to.shape);
    if (!is_dense(old, run)) {
      return ViewLayout{.possible = false};
    }
    std::int64_t step = old.strides[static_cast<std::size_t>(run.old_end - 1)];
    for (int axis = run.new_end - 1; axis >= run.new_begin; --axis) {
      strides[static_cast<std::size_t>(axis)] = step;
      step *= to.shape[axis];
    }
  }
  for (int axis = run.new_end; axis < to.shape.rank(); ++axis) {
    strides[static_cast<std::size_t>(axis)] = 1;  // trailing axes of size 1
  }
  return ViewLayout{.layout = detail::Layout(to.shape, strides)};
}

}  // namespace

ViewLayout view_layout(const OpView& op, const detail::Layout& from, const detail::Layout& to) {
  Strides strides{};
  std::int64_t offset = 0;
  switch (op.kind()) {
    case OpKind::reshape:
      return reshape_layout(from, to);
    case OpKind::permute: {
      const auto attributes = op.attributes<PermuteAttributes>();
      for (int axis = 0; axis < to.shape.rank(); ++axis) {
        const auto i = static_cast<std::size_t>(axis);
        strides[i] = from.strides[attributes.axes[i]];
      }
      break;
    }
    case OpKind::slice: {
      const auto attributes = op.attributes<SliceAttributes>();
      const bool is_empty = to.shape.element_count() == 0;
      for (int axis = 0; axis < to.shape.rank(); ++axis) {
        const auto i = static_cast<std::size_t>(axis);
        strides[i] = from.strides[i] * attributes.step[i];
        offset += is_empty ? 0 : from.strides[i] * attributes.start[i];
      }
      break;
    }
    case OpKind::expand:
      strides = broadcast_strides(from, to.shape);
      break;
    default:
      HEARTH_ASSERT(false, "not a view");
  }
  return ViewLayout{.offset_elements = offset, .layout = detail::Layout(to.shape, strides)};
}

}  // namespace hearth
