#include <hearth/streams/shape_rules.hpp>

#include "rule_error.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace hearth::rules {
namespace {

using detail::broken;

Shape without_axes(const Shape& from, std::uint32_t axes, bool keep_dims) {
  Shape out;
  for (int axis = 0; axis < from.rank(); ++axis) {
    if ((axes >> static_cast<unsigned>(axis) & 1U) == 0) {
      out.push_back(from[axis]);
    } else if (keep_dims) {
      out.push_back(1);
    }
  }
  return out;
}

// An empty set has no maximum or minimum; a result without elements needs none.
Status check_not_empty(OpKind kind, const Shape& from, std::uint32_t axes) {
  for (int axis = 0; axis < from.rank(); ++axis) {
    if ((axes >> static_cast<unsigned>(axis) & 1U) != 0 && from[axis] == 0 &&
        without_axes(from, axes, false).element_count() != 0) {
      return broken(ErrorCode::invalid_argument,
                    kind,
                    fmt::format("axis {} of {} has no elements", axis, from.to_string()));
    }
  }
  return {};
}

// Returns the size that replaces -1. Fails if `to` has two of them or no size fits.
Result<std::int64_t> missing_size(const Shape& from, std::span<const std::int64_t> to) {
  std::int64_t known = 1;
  int missing = 0;
  for (const std::int64_t size : to) {
    if (size < -1) {
      return broken(ErrorCode::shape_mismatch,
                    OpKind::reshape,
                    fmt::format("the size {} in [{}] is negative; only -1, once, is worked out",
                                size,
                                fmt::join(to, ", ")));
    }
    if (size == -1) {
      ++missing;
    } else if (size > 0 && known > std::numeric_limits<std::int64_t>::max() / size) {
      known = 0;
    } else {
      known *= size;
    }
  }
  if (missing == 0) {
    return std::int64_t{1};
  }
  if (missing > 1 || known == 0 || from.element_count() % known != 0) {
    return broken(
        ErrorCode::shape_mismatch,
        OpKind::reshape,
        fmt::format(
            "-1 cannot be worked out from {} to [{}]", from.to_string(), fmt::join(to, ", ")));
  }
  return from.element_count() / known;
}

struct Bounds {
  std::int64_t start;
  std::int64_t count;
};

// Python's rule for one axis. Both bounds are clamped first, so the differences stay small.
Bounds python_slice(std::int64_t size, std::int64_t start, std::int64_t stop, std::int64_t step) {
  const std::int64_t lowest = step < 0 ? -1 : 0;
  const std::int64_t highest = step < 0 ? size - 1 : size;
  const auto clamp = [&](std::int64_t index) {
    return std::clamp(index < 0 ? index + size : index, lowest, highest);
  };
  const std::int64_t first = clamp(start);
  const std::int64_t last = clamp(stop);
  const std::int64_t distance = step < 0 ? first - last : last - first;
  // Unsigned, because the smallest integer has no positive counterpart.
  const auto bits = static_cast<std::uint64_t>(step);
  const std::uint64_t stride = step < 0 ? 0 - bits : bits;
  const std::uint64_t count =
      distance <= 0 ? 0 : (static_cast<std::uint64_t>(distance) - 1) / stride + 1;
  return {first, static_cast<std::int64_t>(count)};
}

}  // namespace

Result<TensorSpec> binary(OpKind kind, const TensorSpec& a, const TensorSpec& b) {
  const std::array inputs{a, b};
  HEARTH_TRY(const DType dtype, result_dtype(kind, inputs));
  Result<Shape> shape = broadcast(a.shape, b.shape);
  if (!shape.has_value()) {
    return broken(
        ErrorCode::shape_mismatch, kind, "shapes do not broadcast", {{"lhs", &a}, {"rhs", &b}});
  }
  return TensorSpec{dtype, shape.value()};
}

Result<TensorSpec> where(const TensorSpec& condition, const TensorSpec& a, const TensorSpec& b) {
  const std::array inputs{condition, a, b};
  HEARTH_TRY(const DType dtype, result_dtype(OpKind::where, inputs));
  Result<Shape> shape = broadcast(a.shape, b.shape);
  if (shape.has_value()) {
    shape = broadcast(condition.shape, shape.value());
  }
  if (!shape.has_value()) {
    return broken(ErrorCode::shape_mismatch,
                  OpKind::where,
                  "shapes do not broadcast",
                  {{"condition", &condition}, {"a", &a}, {"b", &b}});
  }
  return TensorSpec{dtype, shape.value()};
}

Result<Shape> reshape(const Shape& from, std::span<const std::int64_t> to) {
  HEARTH_TRY(const std::int64_t missing, missing_size(from, to));
  std::array<std::int64_t, kMaxRank + 1>
      dims{};  // room for one too many, which result_shape reports
  const std::size_t rank = std::min(to.size(), dims.size());
  std::replace_copy(to.begin(),
                    to.begin() + static_cast<std::ptrdiff_t>(rank),
                    dims.begin(),
                    std::int64_t{-1},
                    missing);
  HEARTH_TRY(const Shape shape, detail::result_shape(OpKind::reshape, {dims.data(), rank}));
  if (shape.element_count() != from.element_count()) {
    return broken(ErrorCode::shape_mismatch,
                  OpKind::reshape,
                  fmt::format("{} has {} elements, {} has {}",
                              from.to_string(),
                              from.element_count(),
                              shape.to_string(),
                              shape.element_count()));
  }
  return shape;
}

Result<Shape> permute(const Shape& from, std::span<const int> axes) {
  const auto fail = [&] {
    return broken(
        ErrorCode::invalid_argument,
        OpKind::permute,
        fmt::format(
            "axes [{}] do not name each axis of {} once", fmt::join(axes, ", "), from.to_string()));
  };
  if (axes.size() != static_cast<std::size_t>(from.rank())) {
    return fail();
  }
  Shape out;
  std::uint32_t seen = 0;
  for (const int axis : axes) {
    const Result<int> normal = normalize_axis(name(OpKind::permute), axis, from.rank());
    if (!normal.has_value() || (seen >> static_cast<unsigned>(normal.value()) & 1U) != 0) {
      return fail();
    }
    seen |= 1U << static_cast<unsigned>(normal.value());
    out.push_back(from[normal.value()]);
  }
  return out;
}

Result<Shape> slice(const Shape& from,
                    int axis,
                    std::int64_t start,
                    std::int64_t stop,
                    std::int64_t step,
                    SliceAttributes* out) {
  HEARTH_TRY(const int normal, normalize_axis(name(OpKind::slice), axis, from.rank()));
  if (step == 0) {
    return broken(ErrorCode::invalid_argument,
                  OpKind::slice,
                  fmt::format("the step along axis {} of {} is 0", axis, from.to_string()));
  }
  const Bounds bounds = python_slice(from[normal], start, stop, step);
  *out = {};
  std::fill_n(out->step.begin(), from.rank(), 1);
  if (bounds.count > 0) {
    out->start[static_cast<std::size_t>(normal)] = bounds.start;
  }
  if (bounds.count > 1) {  // one index or none needs no step, which might be huge
    out->step[static_cast<std::size_t>(normal)] = step;
  }
  Shape shape = from;
  shape.set(normal, bounds.count);
  return shape;
}

Result<Shape> expand(const Shape& from, const Shape& to) {
  const int offset = to.rank() - from.rank();
  bool fits = offset >= 0;
  for (int axis = 0; fits && axis < from.rank(); ++axis) {
    fits = from[axis] == to[axis + offset] || from[axis] == 1;
  }
  if (!fits) {
    return broken(ErrorCode::shape_mismatch,
                  OpKind::expand,
                  fmt::format("{} does not broadcast to {}", from.to_string(), to.to_string()));
  }
  return to;
}

Result<TensorSpec> concat(std::span<const TensorSpec> inputs, int axis) {
  HEARTH_TRY(const DType dtype, result_dtype(OpKind::concat, inputs));
  const Shape& first = inputs[0].shape;
  HEARTH_TRY(const int normal, normalize_axis(name(OpKind::concat), axis, first.rank()));
  std::array<std::int64_t, kMaxRank> dims{};
  std::copy(first.dims().begin(), first.dims().end(), dims.begin());
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    Shape same = inputs[i].shape;
    if (same.rank() == first.rank()) {
      same.set(normal, first[normal]);
    }
    if (same != first) {
      return broken(ErrorCode::shape_mismatch,
                    OpKind::concat,
                    fmt::format("input {} differs outside axis {}", i, normal),
                    {{"input 0", &inputs[0]}, {fmt::format("input {}", i), &inputs[i]}});
    }
    std::int64_t& length = dims[static_cast<std::size_t>(normal)];
    const std::int64_t size = inputs[i].shape[normal];
    length = length > std::numeric_limits<std::int64_t>::max() - size
                 ? std::numeric_limits<std::int64_t>::max()
                 : length + size;
  }
  HEARTH_TRY(
      const Shape shape,
      detail::result_shape(OpKind::concat, {dims.data(), static_cast<std::size_t>(first.rank())}));
  return TensorSpec{dtype, shape};
}

Result<Shape> reduce(OpKind kind,
                     const Shape& from,
                     std::span<const int> axes,
                     bool keep_dims,
                     ReduceAttributes* out) {
  std::uint32_t mask = 0;
  for (const int axis : axes) {
    HEARTH_TRY(const int normal, normalize_axis(name(kind), axis, from.rank()));
    const std::uint32_t bit = 1U << static_cast<unsigned>(normal);
    if ((mask & bit) != 0) {
      return broken(ErrorCode::invalid_argument,
                    kind,
                    fmt::format("axes [{}] name axis {} twice", fmt::join(axes, ", "), normal));
    }
    mask |= bit;
  }
  if (axes.empty()) {
    mask = (1U << static_cast<unsigned>(from.rank())) - 1U;
  }
  if (kind == OpKind::reduce_max || kind == OpKind::reduce_min) {
    HEARTH_TRY_STATUS(check_not_empty(kind, from, mask));
  }
  *out = {.axes = mask, .keep_dims = keep_dims ? 1U : 0U};
  return without_axes(from, mask, keep_dims);
}

Result<Shape> position(OpKind kind, const Shape& from, int axis, bool keep_dims) {
  HEARTH_TRY(const int normal, normalize_axis(name(kind), axis, from.rank()));
  const std::uint32_t mask = 1U << static_cast<unsigned>(normal);
  HEARTH_TRY_STATUS(check_not_empty(kind, from, mask));
  return without_axes(from, mask, keep_dims);
}

Result<Shape> topk(const Shape& from, std::int64_t count, int axis) {
  HEARTH_TRY(const int normal, normalize_axis(name(OpKind::topk), axis, from.rank()));
  if (count < 0 || count > from[normal]) {
    return broken(ErrorCode::invalid_argument,
                  OpKind::topk,
                  fmt::format("count is {}, but must be in 0 to {}, the size of axis {} of {}",
                              count,
                              from[normal],
                              axis,
                              from.to_string()));
  }
  Shape shape = from;
  shape.set(normal, count);
  return shape;
}

}  // namespace hearth::rules
