#include "view_layout.hpp"

#include <hearth/runtime/base/assert.hpp>
#include <hearth/streams/op_attributes.hpp>

namespace hearth {
namespace {

// Joins runs of axes that lie without gaps, and splits them again along the new shape. Fails where
// a new axis would cross a gap.
ViewLayout reshape_layout(const Layout& from, const Layout& to) {
  if (from.contiguous || to.shape.element_count() == 0) {
    return ViewLayout{.layout = to};
  }
  Shape old_shape;
  Strides old_strides{};
  for (int axis = 0; axis < from.shape.rank(); ++axis) {
    if (from.shape[axis] != 1) {
      old_strides[static_cast<std::size_t>(old_shape.rank())] =
          from.strides[static_cast<std::size_t>(axis)];
      old_shape.push_back(from.shape[axis]);
    }
  }
  Strides strides{};
  int old_begin = 0;
  int new_begin = 0;
  while (old_begin < old_shape.rank() && new_begin < to.shape.rank()) {
    int old_end = old_begin + 1;
    int new_end = new_begin + 1;
    std::int64_t old_size = old_shape[old_begin];
    std::int64_t new_size = to.shape[new_begin];
    while (old_size != new_size) {
      if (new_size < old_size) {
        new_size *= to.shape[new_end++];
      } else {
        old_size *= old_shape[old_end++];
      }
    }
    for (int axis = old_begin; axis + 1 < old_end; ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      if (old_strides[i] != old_shape[axis + 1] * old_strides[i + 1]) {
        return ViewLayout{.possible = false};
      }
    }
    std::int64_t step = old_strides[static_cast<std::size_t>(old_end - 1)];
    for (int axis = new_end - 1; axis >= new_begin; --axis) {
      strides[static_cast<std::size_t>(axis)] = step;
      step *= to.shape[axis];
    }
    old_begin = old_end;
    new_begin = new_end;
  }
  for (int axis = new_begin; axis < to.shape.rank(); ++axis) {
    strides[static_cast<std::size_t>(axis)] = 1;  // axes of size 1 at the end
  }
  return ViewLayout{.layout = Layout(to.shape, strides)};
}

}  // namespace

ViewLayout view_layout(const OpView& op, const Layout& from, const Layout& to) {
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
  return ViewLayout{.offset_elements = offset, .layout = Layout(to.shape, strides)};
}

}  // namespace hearth
