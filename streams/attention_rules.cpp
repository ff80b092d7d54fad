#include <hearth/streams/shape_rules.hpp>

#include "rule_error.hpp"

#include <array>

#include <fmt/format.h>

namespace hearth::rules {
namespace {

using detail::broken;

Error mismatch(OpKind kind,
               std::string_view what,
               const TensorSpec& q,
               const TensorSpec& k,
               const TensorSpec& v,
               const TensorSpec* mask) {
  return broken(ErrorCode::shape_mismatch,
                kind,
                what,
                {{"query", &q}, {"key", &k}, {"value", &v}, {"mask", mask}});
}

/// Returns the broken rule for the shapes of queries, keys and values; empty if there is none.
std::string complaint(const Shape& q, const Shape& k, const Shape& v) {
  const int rank = q.rank();
  if (rank < 2 || k.rank() != rank || v.rank() != rank) {
    return "all need one rank, at least 2";
  }
  for (int axis = 0; axis < rank - 3; ++axis) {
    if (k[axis] != q[axis] || v[axis] != q[axis]) {
      return fmt::format("sizes along axis {} differ", axis);
    }
  }
  if (rank > 2) {
    const std::int64_t groups = k[rank - 3];
    if (v[rank - 3] != groups) {
      return "keys and values differ in heads";
    }
    if (groups == 0 ? q[rank - 3] != 0 : q[rank - 3] % groups != 0) {
      return fmt::format("{} query heads do not share {} key heads", q[rank - 3], groups);
    }
  }
  if (k[rank - 2] != v[rank - 2]) {
    return "keys and values differ in number";
  }
  return k[rank - 1] == q[rank - 1] ? "" : "queries and keys differ in width";
}

}  // namespace

Result<TensorSpec> attention(OpKind kind,
                             const TensorSpec& q,
                             const TensorSpec& k,
                             const TensorSpec& v,
                             const TensorSpec* mask) {
  if (const std::string text = complaint(q.shape, k.shape, v.shape); !text.empty()) {
    return mismatch(kind, text, q, k, v, mask);
  }
  const int rank = q.shape.rank();
  Shape scores = q.shape;
  scores.set(rank - 1, k.shape[rank - 2]);
  if (mask != nullptr) {
    const Result<Shape> both = broadcast(mask->shape, scores);
    if (!both.has_value() || both.value() != scores) {
      return mismatch(kind, "the mask does not broadcast to " + scores.to_string(), q, k, v, mask);
    }
  }
  Shape shape = q.shape;
  shape.set(rank - 1, v.shape[rank - 1]);
  HEARTH_TRY(const Shape result, detail::result_shape(kind, shape.dims()));
  return TensorSpec{q.dtype, result};
}

TensorSpec attention_statistics(const TensorSpec& q) {
  Shape shape = q.shape;
  shape.set(shape.rank() - 1, 2);
  return {q.dtype == DType::f64 ? DType::f64 : DType::f32, shape};
}

}  // namespace hearth::rules
