// Shape and dtype rules: from the inputs of an op to its result, or to the sentence that says which
// rule was broken. Pure functions.
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

/// Checks the number and the dtypes of an op's inputs by its row and gives the result's dtype (that
/// of the first result). For DtypeRule::given, where the caller knows the result, it gives the
/// input's, or f32 without one.
[[nodiscard]] Result<DType> result_dtype(OpKind kind, std::span<const TensorSpec> inputs);

[[nodiscard]] Result<TensorSpec> binary(OpKind kind, const TensorSpec& a, const TensorSpec& b);
[[nodiscard]] Result<TensorSpec> where(const TensorSpec& condition,
                                       const TensorSpec& a,
                                       const TensorSpec& b);
/// `to` may hold one -1, which is worked out.
[[nodiscard]] Result<Shape> reshape(const Shape& from, std::span<const std::int64_t> to);
[[nodiscard]] Result<Shape> permute(const Shape& from, std::span<const int> axes);
/// Indices start, start + step, … before stop along one axis, all of the others, as in Python:
/// negative bounds count from the end and bounds outside are clamped; step is not 0. Fills the
/// attributes.
[[nodiscard]] Result<Shape> slice(const Shape& from,
                                  int axis,
                                  std::int64_t start,
                                  std::int64_t stop,
                                  std::int64_t step,
                                  SliceAttributes* out);
/// `from` read as `to`: equal axes, or 1 in `from`; `to` may have more axes in front.
[[nodiscard]] Result<Shape> expand(const Shape& from, const Shape& to);
[[nodiscard]] Result<TensorSpec> concat(std::span<const TensorSpec> inputs, int axis);
/// Negative axes count from the end; an empty list means all. Fills the mask.
/// Errors: reduce_max and reduce_min over an axis without elements, too.
[[nodiscard]] Result<Shape> reduce(OpKind kind,
                                   const Shape& from,
                                   std::span<const int> axes,
                                   bool keep_dims,
                                   ReduceAttributes* out);
/// argmax and argmin.
[[nodiscard]] Result<Shape> position(OpKind kind, const Shape& from, int axis, bool keep_dims);
/// topk: `count` of the elements along the axis.
[[nodiscard]] Result<Shape> topk(const Shape& from, std::int64_t count, int axis);
/// So many products of two i8 fit a sum in i32, whatever they are: 131,071 · 128 · 128 < 2^31.
inline constexpr std::int64_t kMostInt8Depth = 131'071;
/// Both of rank ≥ 2; the batch axes broadcast. bias, when given, is [n]. Of two i8, without a bias
/// and with an inner axis of at most kMostInt8Depth, the result is i32.
[[nodiscard]] Result<TensorSpec> matmul(const TensorSpec& a,
                                        const TensorSpec& b,
                                        const TensorSpec* bias);
/// x [n, c, h, w], w [o, c/groups, kh, kw], bias, when given, [o]; gives [n, o, oh, ow] with
/// oh = floor((h + 2*padding - dilation*(kh-1) - 1) / stride) + 1.
[[nodiscard]] Result<TensorSpec> conv2d(const TensorSpec& x,
                                        const TensorSpec& w,
                                        const TensorSpec* bias,
                                        const ConvAttributes& attributes);
/// x [n, c, h, w] gives [n, c, oh, ow]; padding is at most half the window and a plane has
/// elements, so that no window lies outside. A plane of max_pool2d has at most 2^31 - 1 elements:
/// positions are i32.
[[nodiscard]] Result<TensorSpec> pool2d(OpKind kind,
                                        const TensorSpec& x,
                                        const PoolAttributes& attributes);
/// logits [n, c], targets [n]; gives the shape of the losses, [n].
[[nodiscard]] Result<TensorSpec> cross_entropy(const TensorSpec& logits, const TensorSpec& targets);
/// index has x's rank and off the axis no more elements than x; gives x's type in index's shape.
/// What is picked from has elements along the axis, unless nothing is picked.
[[nodiscard]] Result<TensorSpec> gather(const TensorSpec& x, const TensorSpec& index, int axis);
/// index [n]; gives x's shape with n along the axis.
[[nodiscard]] Result<TensorSpec> index_select(const TensorSpec& x,
                                              const TensorSpec& index,
                                              int axis);
/// source and index have the one shape that gather would give of a tensor of shape `whole`; gives
/// whole.
[[nodiscard]] Result<TensorSpec> scatter_add(const TensorSpec& source,
                                             const TensorSpec& index,
                                             const Shape& whole,
                                             int axis);
/// source is as index_select would give it of a tensor of shape `whole`; gives whole.
[[nodiscard]] Result<TensorSpec> index_add(const TensorSpec& source,
                                           const TensorSpec& index,
                                           const Shape& whole,
                                           int axis);
/// q [..., h, n, d], k [..., g, m, d], v [..., g, m, e] with h a multiple of g give
/// [..., h, n, e]; of rank 2 they are one head. mask, when given, broadcasts to [..., h, n, m].
/// Errors name `kind`, which is attention or attention_backward; element types are not looked at.
[[nodiscard]] Result<TensorSpec> attention(OpKind kind,
                                           const TensorSpec& q,
                                           const TensorSpec& k,
                                           const TensorSpec& v,
                                           const TensorSpec* mask);
/// The second result of attention, [..., h, n, 2]: f64 for f64, else f32. A row of scores has its
/// largest one and 1 / the sum of exp(score - largest); without a key, -infinity and 0.
[[nodiscard]] TensorSpec attention_statistics(const TensorSpec& q);

}  // namespace hearth::rules
