#include "layout_rules.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace hearth::onnx {
namespace {

// Resolves the one -1 of a shape by the number of elements.
void resolve_rest(const Call& call, Sizes& sizes, std::int64_t elements) {
  const auto rest = std::ranges::find(sizes, -1);
  if (rest == sizes.end()) {
    return;
  }
  std::int64_t others = 1;
  for (auto size = sizes.begin(); size != sizes.end(); ++size) {
    others *= size == rest ? 1 : *size;
  }
  if (others < 1 || elements % others != 0) {
    call.refuse("the shape [{}] does not fit {} elements", fmt::join(sizes, ", "), elements);
  }
  *rest = elements / others;
}

std::int64_t clamped(std::int64_t value, std::int64_t low, std::int64_t high) {
  return std::max(low, std::min(value, high));
}

// One axis of Slice, by the rules of Python with ends beyond the axis.
AxisSelection selection(
    int axis, std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step) {
  const bool is_forward = step > 0;
  start = clamped(start < 0 ? start + size : start, 0, is_forward ? size : size - 1);
  end = clamped(end < 0 ? end + size : end, is_forward ? 0 : -1, is_forward ? size : size - 1);
  const std::int64_t span = is_forward ? end - start : start - end;
  const std::int64_t stride = is_forward ? step : -step;
  return {axis, start, step, span > 0 ? (span - 1) / stride + 1 : 0};
}

}  // namespace

Shape reshape_target(Call& call) {
  const Shape from = call.shape(0);
  const std::optional<Sizes> given = call.integers(1, "shape");
  if (!given) {
    call.refuse("Reshape has no shape");
  }
  Sizes sizes = *given;
  if (call.node().integer("allowzero", 0) == 0) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == 0) {
        if (i >= static_cast<std::size_t>(from.rank())) {
          call.refuse("the shape [{}] copies axis {}, which {} has not",
                      fmt::join(sizes, ", "),
                      i,
                      from.to_string());
        }
        sizes[i] = from[static_cast<int>(i)];
      }
    }
  }
  resolve_rest(call, sizes, from.element_count());
  return Shape(sizes);
}

Shape squeeze_target(Call& call) {
  const Shape from = call.shape(0);
  const std::optional<Sizes> given = call.integers(1, "axes");
  std::vector<int> axes;
  if (given) {
    axes = call.axes(*given, from.rank());
  } else {
    for (int axis = 0; axis < from.rank(); ++axis) {
      if (from[axis] == 1) {
        axes.push_back(axis);
      }
    }
  }
  Sizes sizes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) {
      sizes.push_back(from[axis]);
    } else if (from[axis] != 1) {
      call.refuse("axis {} of {} has not size 1", axis, from.to_string());
    }
  }
  return Shape(sizes);
}

Shape unsqueeze_target(Call& call) {
  const Shape from = call.shape(0);
  const std::optional<Sizes> given = call.integers(1, "axes");
  if (!given) {
    call.refuse("Unsqueeze has no axes");
  }
  const int rank = from.rank() + static_cast<int>(given->size());
  const std::vector<int> axes = call.axes(*given, rank);
  Sizes sizes;
  for (int axis = 0, next = 0; axis < rank; ++axis) {
    const bool is_new = std::ranges::find(axes, axis) != axes.end();
    sizes.push_back(is_new ? 1 : from[next++]);
  }
  return Shape(sizes);
}

Shape flatten_target(Call& call) {
  const Shape from = call.shape(0);
  const std::int64_t given = call.node().integer("axis", 1);
  const int axis = given == from.rank() ? from.rank() : call.axis(given, from.rank());
  std::int64_t rows = 1;
  for (int i = 0; i < axis; ++i) {
    rows *= from[i];
  }
  std::int64_t columns = 1;
  for (int i = axis; i < from.rank(); ++i) {
    columns *= from[i];
  }
  return Shape{rows, columns};
}

Shape expand_target(Call& call) {
  return broadcast(call.shape(0), Shape(call.integers(1))).value();
}

std::vector<std::int64_t> tile_counts(Call& call) {
  const int rank = call.rank(0);
  if (call.opset() < 6) {  // one axis
    Sizes counts(static_cast<std::size_t>(rank), 1);
    counts[static_cast<std::size_t>(call.axis(call.integer(2), rank))] = call.integer(1);
    return counts;
  }
  Sizes counts = call.integers(1);
  if (counts.size() != static_cast<std::size_t>(rank)) {
    call.refuse("it has {} repeats for {} axes", counts.size(), rank);
  }
  return counts;
}

std::vector<int> transpose_order(Call& call) {
  const int rank = call.rank(0);
  std::vector<int> order(static_cast<std::size_t>(rank));
  const Sizes* const given = call.node().integers("perm");
  if (given == nullptr || given->empty()) {
    for (int i = 0; i < rank; ++i) {
      order[static_cast<std::size_t>(i)] = rank - 1 - i;
    }
    return order;
  }
  if (given->size() != order.size()) {
    call.refuse("perm [{}] does not fit {}", fmt::join(*given, ", "), call.shape(0).to_string());
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = call.axis((*given)[i], rank);
  }
  return order;
}

std::vector<AxisSelection> slice_selections(Call& call) {
  const Shape shape = call.shape(0);
  const std::optional<Sizes> starts = call.integers(1, "starts");
  const std::optional<Sizes> ends = call.integers(2, "ends");
  if (!starts || !ends || starts->size() != ends->size()) {
    call.refuse("starts and ends differ in number");
  }
  Sizes axes(starts->size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = call.integers(3, "axes").value_or(axes);
  const Sizes steps = call.integers(4, "steps").value_or(Sizes(starts->size(), 1));
  if (axes.size() != starts->size() || steps.size() != starts->size()) {
    call.refuse("starts, axes and steps differ in number");
  }
  std::vector<AxisSelection> all;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = call.axis(axes[i], shape.rank());
    if (steps[i] == 0 || steps[i] == std::numeric_limits<std::int64_t>::min()) {
      call.refuse("step {} of axis {} selects nothing", steps[i], axis);
    }
    all.push_back(selection(axis, shape[axis], (*starts)[i], (*ends)[i], steps[i]));
  }
  return all;
}

SplitParts split_parts(Call& call) {
  const Shape shape = call.shape(0);
  const int axis = call.axis(call.node().integer("axis", 0), shape.rank());
  const std::int64_t size = shape[axis];
  if (std::optional<Sizes> given = call.integers(1, "split"); given && !given->empty()) {
    if (std::accumulate(given->begin(), given->end(), std::int64_t{0}) != size) {
      call.refuse("the parts [{}] do not sum to {}", fmt::join(*given, ", "), size);
    }
    return {axis, *std::move(given)};
  }
  const auto outputs = static_cast<std::int64_t>(call.node().is_wanted.size());
  const std::int64_t count = call.node().integer("num_outputs", outputs);
  const std::int64_t part = count < 1 ? 0 : (size + count - 1) / count;
  if (count < 1 || (call.opset() < 18 && size % count != 0)) {
    call.refuse("axis {} of size {} has no {} equal parts", axis, size, count);
  }
  SplitParts parts{.axis = axis};
  for (std::int64_t i = 0; i < count; ++i) {
    parts.sizes.push_back(clamped(size - i * part, 0, part));
  }
  return parts;
}

Reduction reduction_of(Call& call) {
  const int rank = call.rank(0);
  const std::optional<Sizes> given = call.integers(1, "axes");
  Reduction reduction{.keeps_axes = call.node().integer("keepdims", 1) != 0};
  if (given && !given->empty()) {
    reduction.axes = call.axes(*given, rank);
  } else if (call.node().integer("noop_with_empty_axes", 0) == 0) {
    reduction.axes.resize(static_cast<std::size_t>(rank));
    std::iota(reduction.axes.begin(), reduction.axes.end(), 0);
  }
  return reduction;
}

}  // namespace hearth::onnx
