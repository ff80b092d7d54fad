#include <hearth/streams/shape_rules.hpp>

#include "rule_error.hpp"

#include <array>
#include <initializer_list>

#include <fmt/format.h>

namespace hearth::rules {
namespace {

using detail::broken;
using Operands = std::initializer_list<detail::Named>;

// Returns the shape of what the index selects along the axis of `whole`. Each entry of a
// one-dimensional index (index_select, index_add) selects a slice; each entry of any other index
// selects an element.
Result<Shape> named_shape(
    OpKind kind, const Shape& whole, const Shape& index, int axis, Operands operands) {
  const bool is_line = kind == OpKind::index_select || kind == OpKind::index_add;
  HEARTH_TRY(const int along, normalize_axis(name(kind), axis, whole.rank()));
  if (index.rank() != (is_line ? 1 : whole.rank())) {
    return broken(ErrorCode::shape_mismatch,
                  kind,
                  is_line
                      ? "the index must have rank 1"
                      : fmt::format("the index must have rank {}, as what it names", whole.rank()),
                  operands);
  }
  if (whole[along] == 0 && index.element_count() != 0) {
    return broken(ErrorCode::shape_mismatch,
                  kind,
                  fmt::format("axis {} of {} has no elements", along, whole.to_string()),
                  operands);
  }
  if (is_line) {
    std::array<std::int64_t, kMaxRank> dims{};
    for (int i = 0; i < whole.rank(); ++i) {
      dims[static_cast<std::size_t>(i)] = i == along ? index[0] : whole[i];
    }
    return detail::result_shape(kind, {dims.data(), static_cast<std::size_t>(whole.rank())});
  }
  for (int i = 0; i < whole.rank(); ++i) {
    if (i != along && index[i] > whole[i]) {
      return broken(ErrorCode::shape_mismatch,
                    kind,
                    fmt::format("the index is longer than {} along axis {}", whole.to_string(), i),
                    operands);
    }
  }
  return index;
}

Result<TensorSpec> picked(OpKind kind, const TensorSpec& x, const TensorSpec& index, int axis) {
  const std::array inputs{x, index};
  HEARTH_TRY(const DType dtype, result_dtype(kind, inputs));
  HEARTH_TRY(const Shape shape,
             named_shape(kind, x.shape, index.shape, axis, {{"x", &x}, {"index", &index}}));
  return TensorSpec{dtype, shape};
}

Result<TensorSpec> added(
    OpKind kind, const TensorSpec& source, const TensorSpec& index, const Shape& whole, int axis) {
  const std::array inputs{source, index};
  HEARTH_TRY(const DType dtype, result_dtype(kind, inputs));
  const Operands operands = {{"source", &source}, {"index", &index}};
  HEARTH_TRY(const Shape wanted, named_shape(kind, whole, index.shape, axis, operands));
  if (source.shape != wanted) {
    return broken(ErrorCode::shape_mismatch,
                  kind,
                  fmt::format("the source must be {}", wanted.to_string()),
                  operands);
  }
  return TensorSpec{dtype, whole};
}

}  // namespace

Result<TensorSpec> gather(const TensorSpec& x, const TensorSpec& index, int axis) {
  return picked(OpKind::gather, x, index, axis);
}
Result<TensorSpec> index_select(const TensorSpec& x, const TensorSpec& index, int axis) {
  return picked(OpKind::index_select, x, index, axis);
}
Result<TensorSpec> scatter_add(const TensorSpec& source,
                               const TensorSpec& index,
                               const Shape& whole,
                               int axis) {
  return added(OpKind::scatter_add, source, index, whole, axis);
}
Result<TensorSpec> index_add(const TensorSpec& source,
                             const TensorSpec& index,
                             const Shape& whole,
                             int axis) {
  return added(OpKind::index_add, source, index, whole, axis);
}

Result<TensorSpec> scatter(const TensorSpec& x,
                           const TensorSpec& index,
                           const TensorSpec& updates,
                           const ScatterAttributes& attributes) {
  constexpr OpKind kKind = OpKind::scatter;
  const std::array inputs{x, index, updates};
  HEARTH_TRY(const DType dtype, result_dtype(kKind, inputs));
  const Operands operands = {{"x", &x}, {"index", &index}, {"updates", &updates}};
  HEARTH_TRY(const Shape wanted,
             named_shape(kKind, x.shape, index.shape, attributes.axis, operands));
  if (updates.shape != wanted) {
    return broken(ErrorCode::shape_mismatch,
                  kKind,
                  fmt::format("the updates must be {}", wanted.to_string()),
                  operands);
  }
  const bool is_sum = attributes.mode == ScatterMode::add || attributes.mode == ScatterMode::mul;
  if (is_sum && dtype == DType::boolean) {
    return broken(ErrorCode::dtype_mismatch,
                  kKind,
                  "bools are neither added nor multiplied: max is their or, min their and",
                  operands);
  }
  return TensorSpec{dtype, x.shape};
}

}  // namespace hearth::rules
