// Shape and dtype rules: from the inputs of an op to its result, or to an error that names the
// broken rule. Pure functions.
// Errors: shape_mismatch, dtype_mismatch, invalid_argument; the text starts with the op's name and
// shows the operands: "matmul: inner dimensions differ: lhs f32[4, 8], rhs f32[9, 3]".
// Threads: any.
#pragma once

#include <span>

#include <hearth/runtime/base/result.hpp>
#include <hearth/runtime/base/shape.hpp>
#include <hearth/streams/op_attributes.hpp>
#include <hearth/streams/op_table.hpp>

namespace hearth::rules {

/// Checks the number and the dtypes of an op's inputs by its row. Returns the dtype of the first
/// result. For DtypeRule::given, whose result the caller chooses, returns the input's dtype, or f32
/// without an input.
[[nodiscard]] Result<DType> result_dtype(OpKind kind, std::span<const TensorSpec> inputs);

[[nodiscard]] Result<TensorSpec> binary(OpKind kind, const TensorSpec& a, const TensorSpec& b);
[[nodiscard]] Result<TensorSpec> where(const TensorSpec& condition,
                                       const TensorSpec& a,
                                       const TensorSpec& b);
/// Returns the shape `to`, with one -1 at most replaced by the missing size.
[[nodiscard]] Result<Shape> reshape(const Shape& from, std::span<const std::int64_t> to);
[[nodiscard]] Result<Shape> permute(const Shape& from, std::span<const int> axes);
/// Slices one axis as Python does: indices start, start + step, … before stop. Negative bounds
/// count from the end, and bounds outside are clamped. step must not be 0. Fills the attributes.
[[nodiscard]] Result<Shape> slice(const Shape& from,
                                  int axis,
                                  std::int64_t start,
                                  std::int64_t stop,
                                  std::int64_t step,
                                  SliceAttributes* out);
/// Checks that `from` can be read as `to`: equal axes, or 1 in `from`; `to` may have more axes in
/// front.
[[nodiscard]] Result<Shape> expand(const Shape& from, const Shape& to);
[[nodiscard]] Result<TensorSpec> concat(std::span<const TensorSpec> inputs, int axis);
/// Returns the shape of a reduction. Negative axes count from the end; an empty list means all.
/// Fills the mask.
///
/// Errors: also for reduce_max and reduce_min over an axis without elements.
[[nodiscard]] Result<Shape> reduce(OpKind kind,
                                   const Shape& from,
                                   std::span<const int> axes,
                                   bool keep_dims,
                                   ReduceAttributes* out);
/// Returns the shape of argmax or argmin.
[[nodiscard]] Result<Shape> position(OpKind kind, const Shape& from, int axis, bool keep_dims);
/// Returns the shape of topk: `count` elements along the axis.
[[nodiscard]] Result<Shape> topk(const Shape& from, std::int64_t count, int axis);
/// Largest inner axis whose products of i8 always fit an i32 sum: 131,071 · 128 · 128 < 2^31.
inline constexpr std::int64_t kMostInt8Depth = 131'071;
/// Both inputs have rank ≥ 2; the batch axes broadcast. An optional bias is [n]. Two i8 inputs give
/// i32, without a bias and with an inner axis of at most kMostInt8Depth.
[[nodiscard]] Result<TensorSpec> matmul(const TensorSpec& a,
                                        const TensorSpec& b,
                                        const TensorSpec* bias);
/// x [n, c, h, w], w [o, c/groups, kh, kw], optional bias [o]; result [n, o, oh, ow] with oh =
/// floor((h + 2*padding - dilation*(kh-1) - 1) / stride) + 1.
[[nodiscard]] Result<TensorSpec> conv2d(const TensorSpec& x,
                                        const TensorSpec& w,
                                        const TensorSpec* bias,
                                        const ConvAttributes& attributes);
/// x [n, c, h, w], w [c, o/groups, kh, kw], optional bias [o]; result [n, o, oh, ow] with oh =
/// (h - 1)*stride - 2*padding + dilation*(kh - 1) + output_padding + 1, so that conv2d of the
/// result has x's shape. Output padding lies below the stride.
[[nodiscard]] Result<TensorSpec> conv_transpose2d(
    const TensorSpec& x,
    const TensorSpec& w,
    const TensorSpec* bias,
    const ConvAttributes& attributes,
    const std::array<std::int64_t, 2>& output_padding);
/// x [n, c, h, w], result [n, c, oh, ow]. The padding is at most half the window and a plane has
/// elements, so that no window is outside. A plane of max_pool2d has at most 2^31 - 1 elements,
/// because positions are i32.
[[nodiscard]] Result<TensorSpec> pool2d(OpKind kind,
                                        const TensorSpec& x,
                                        const PoolAttributes& attributes);
/// logits [n, c], targets [n]; returns the shape of the losses, [n].
[[nodiscard]] Result<TensorSpec> cross_entropy(const TensorSpec& logits, const TensorSpec& targets);
/// index has x's rank and, off the axis, no more elements than x. The result has x's type and
/// index's shape. x has elements along the axis, unless index is empty.
[[nodiscard]] Result<TensorSpec> gather(const TensorSpec& x, const TensorSpec& index, int axis);
/// index [n]; the result has x's shape with n along the axis.
[[nodiscard]] Result<TensorSpec> index_select(const TensorSpec& x,
                                              const TensorSpec& index,
                                              int axis);
/// source and index have the shape that gather would return for a tensor of shape `whole`. The
/// result has the shape `whole`.
[[nodiscard]] Result<TensorSpec> scatter_add(const TensorSpec& source,
                                             const TensorSpec& index,
                                             const Shape& whole,
                                             int axis);
/// source has the shape that index_select would return for a tensor of shape `whole`. The result
/// has the shape `whole`.
[[nodiscard]] Result<TensorSpec> index_add(const TensorSpec& source,
                                           const TensorSpec& index,
                                           const Shape& whole,
                                           int axis);
/// index has x's rank and, off the axis, no more elements than x; updates has index's shape and x's
/// type. The result is like x. Bools are neither added nor multiplied.
[[nodiscard]] Result<TensorSpec> scatter(const TensorSpec& x,
                                         const TensorSpec& index,
                                         const TensorSpec& updates,
                                         const ScatterAttributes& attributes);
/// q [..., h, n, d], k [..., g, m, d], v [..., g, m, e] with h a multiple of g; result [..., h, n,
/// e]. Rank 2 is one head. An optional mask broadcasts to [..., h, n, m].
///
/// Errors: name `kind`, which is attention or attention_backward. Element types are not checked.
[[nodiscard]] Result<TensorSpec> attention(OpKind kind,
                                           const TensorSpec& q,
                                           const TensorSpec& k,
                                           const TensorSpec& v,
                                           const TensorSpec* mask);
/// Returns the second result of attention, [..., h, n, 2]: f64 for f64, else f32. Holds for each
/// row of scores the largest one and 1 / the sum of exp(score - largest); -infinity and 0 without a
/// key.
[[nodiscard]] TensorSpec attention_statistics(const TensorSpec& q);

}  // namespace hearth::rules
