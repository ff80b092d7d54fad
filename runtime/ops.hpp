// The ops that users call. Each op checks its operands, infers shape and dtype, enqueues one record
// on the calling thread's stream and returns the result's Tensor at once.
// Errors of all ops: ShapeError, DtypeError, DeviceMismatch, ArgumentError now, on the caller's
// thread, with nothing queued; DeviceError when a failed result is read.
// Threads: any.
// Dtypes: unless stated otherwise, those of the op table (streams/op_table); operands of several
// types are promoted by promotion.hpp.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <hearth/runtime/activation_ops.hpp>
#include <hearth/runtime/axes.hpp>
#include <hearth/runtime/base/scatter_mode.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/losses.hpp>
#include <hearth/runtime/math_ops.hpp>
#include <hearth/runtime/optional_arg.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/resample_ops.hpp>
#include <hearth/runtime/tensor.hpp>
#include <hearth/runtime/window_ops.hpp>

namespace hearth {

// ---- creation ----
/// A tensor filled with one number; keeps all digits of a 64-bit integer.
/// Errors: ArgumentError if `dtype` cannot hold the value.
[[nodiscard]] Tensor full(const Device& device,
                          const Shape& shape,
                          double value,
                          DType dtype = DType::f32,
                          SourceLoc loc = SourceLoc::current());
template <std::integral Integer>
[[nodiscard]] Tensor full(const Device& device,
                          const Shape& shape,
                          Integer value,
                          DType dtype = DType::f32,
                          SourceLoc loc = SourceLoc::current());
namespace detail {
[[nodiscard]] Tensor full_integer(
    const Device& device, const Shape& shape, std::int64_t value, DType dtype, SourceLoc loc);
}  // namespace detail
[[nodiscard]] Tensor zeros(const Device& device,
                           const Shape& shape,
                           DType dtype = DType::f32,
                           SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor ones(const Device& device,
                          const Shape& shape,
                          DType dtype = DType::f32,
                          SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor zeros_like(const Tensor& like, SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor ones_like(const Tensor& like, SourceLoc loc = SourceLoc::current());
/// The values start, start + step, …: ceil((stop - start) / step) of them.
/// Errors: ArgumentError if `dtype` cannot hold one of them.
[[nodiscard]] Tensor arange(const Device& device,
                            double start,
                            double stop,
                            double step = 1,
                            DType dtype = DType::f32,
                            SourceLoc loc = SourceLoc::current());
/// `count` evenly spaced values from `start` to `stop` inclusive; one value is `start`.
/// Dtypes: floats. Errors: ArgumentError if count is below 0 or `dtype` cannot hold an end.
[[nodiscard]] Tensor linspace(const Device& device,
                              double start,
                              double stop,
                              std::int64_t count,
                              DType dtype = DType::f32,
                              SourceLoc loc = SourceLoc::current());
/// 1 on the main diagonal, else 0. Shapes: [rows, columns]; square if `columns` is omitted.
[[nodiscard]] Tensor eye(const Device& device,
                         std::int64_t rows,
                         std::optional<std::int64_t> columns = {},
                         DType dtype = DType::f32,
                         SourceLoc loc = SourceLoc::current());
/// Uniform in [low, high), also after rounding to `dtype`. The empty range low == high gives low.
/// Errors: ArgumentError if `dtype` has no value in the range, or cannot hold its ends.
[[nodiscard]] Tensor random_uniform(const Device& device,
                                    const Shape& shape,
                                    Generator& generator,
                                    double low = 0,
                                    double high = 1,
                                    DType dtype = DType::f32,
                                    SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor random_normal(const Device& device,
                                   const Shape& shape,
                                   Generator& generator,
                                   double mean = 0,
                                   double standard_deviation = 1,
                                   DType dtype = DType::f32,
                                   SourceLoc loc = SourceLoc::current());
/// 1 with probability p, else 0.
[[nodiscard]] Tensor random_bernoulli(const Device& device,
                                      const Shape& shape,
                                      Generator& generator,
                                      double p,
                                      DType dtype = DType::f32,
                                      SourceLoc loc = SourceLoc::current());
/// Whole numbers, uniform in [low, high). Dtypes: integers and floats that hold all of them.
/// Errors: ArgumentError for an empty range, for more than 2^53 numbers, and for ends that `dtype`
/// does not hold.
[[nodiscard]] Tensor randint(const Device& device,
                             const Shape& shape,
                             Generator& generator,
                             std::int64_t low,
                             std::int64_t high,
                             DType dtype = DType::i64,
                             SourceLoc loc = SourceLoc::current());
struct MultinomialOptions {
  bool with_replacement = false;  ///< True: a class may be drawn more than once.
};
/// Draws class indices (i64) by weights, which need not sum to 1. Without replacement the draws of
/// a row differ and stand in the order of drawing.
///
/// Shapes: weights [classes] -> [count], or [rows, classes] -> [rows, count].
/// Dtypes: floats; f16 and bf16 are computed in f32. No gradient.
/// Errors: ArgumentError if count is below 1, or above the number of classes without replacement. A
/// row poisons the result with out_of_range if a weight is negative or not finite, or if too few
/// weights are above 0.
/// Paper: Efraimidis, Spirakis, Weighted random sampling with a reservoir, IPL 97 (2006).
[[nodiscard]] Tensor multinomial(Arg weights,
                                 std::int64_t count,
                                 Generator& generator,
                                 MultinomialOptions options = {});

// ---- elementwise ----
[[nodiscard]] Tensor cast(Arg x, DType dtype);
[[nodiscard]] Tensor neg(Arg x);
[[nodiscard]] Tensor abs(Arg x);  ///< The gradient at 0 is 0.
[[nodiscard]] Tensor exp(Arg x);
[[nodiscard]] Tensor expm1(Arg x);  ///< exp(x) - 1, exact near 0.
[[nodiscard]] Tensor log(Arg x);
[[nodiscard]] Tensor log1p(Arg x);  ///< log(1 + x), exact near 0.
[[nodiscard]] Tensor sqrt(Arg x);
[[nodiscard]] Tensor rsqrt(Arg x);
[[nodiscard]] Tensor square(Arg x);
[[nodiscard]] Tensor sin(Arg x);
[[nodiscard]] Tensor cos(Arg x);
[[nodiscard]] Tensor tanh(Arg x);
[[nodiscard]] Tensor erf(Arg x);
[[nodiscard]] Tensor atan(Arg x);  ///< The arc tangent, in radians.
/// The arc sine; NaN beyond ±1, where the gradient is infinite. 16-bit types run in f32.
[[nodiscard]] Tensor asin(Arg x);
[[nodiscard]] Tensor acos(Arg x);  ///< The arc cosine, from 0 to π; otherwise as asin.
[[nodiscard]] Tensor sigmoid(Arg x);
[[nodiscard]] Tensor recip(Arg x);
[[nodiscard]] Tensor relu(Arg x);
/// The largest whole number not above x. Dtypes of this and the next three: numbers; integers stay
/// unchanged. The gradient of all four is 0.
[[nodiscard]] Tensor floor(Arg x);
[[nodiscard]] Tensor ceil(Arg x);   ///< The smallest whole number not below x.
[[nodiscard]] Tensor round(Arg x);  ///< The nearest whole number; ties go to even.
[[nodiscard]] Tensor trunc(Arg x);  ///< Rounds towards 0.
/// 1 above 0, -1 below 0, else 0, also for NaN. Dtypes: numbers. The gradient is 0.
[[nodiscard]] Tensor sign(Arg x);
/// Limits x to [low, high]: clamp(x, 0, 1), clamp(x, 0), clamp(x, {}, 1). A bound is a number or a
/// tensor that broadcasts; if low is above high, the result is high. NaN in x stays NaN; NaN in a
/// tensor of bounds is no bound. The gradient goes to x inside the bounds and on them, else to the
/// bound.
///
/// Dtypes: numbers; x and the bounds are promoted to one type. Errors: ArgumentError without a
/// bound, for a NaN, and for a number that the type does not hold.
[[nodiscard]] Tensor clamp(Arg x, OptionalArg low, OptionalArg high = {});
/// Sets each element to 0 with probability p and divides the others by 1 - p.
/// Paper: Srivastava et al., Dropout, JMLR 15 (2014).
[[nodiscard]] Tensor dropout(Arg x, double p, Generator& generator);

// ---- two operands, numpy broadcasting; one of them may be a number ----
[[nodiscard]] Tensor add(Arg a, Arg b);
[[nodiscard]] Tensor sub(Arg a, Arg b);
[[nodiscard]] Tensor mul(Arg a, Arg b);
[[nodiscard]] Tensor div(Arg a, Arg b);
[[nodiscard]] Tensor pow(Arg a, Arg b);
/// floor(a / b), as Python's a // b: floor_divide(-7, 2) is -4; div truncates integers to -3. The
/// quotient of floats is computed in f64. Dtypes: numbers. The gradient is 0.
/// Errors: integer division by 0 poisons the result.
[[nodiscard]] Tensor floor_divide(Arg a, Arg b);
/// a - b·floor(a / b), with the sign of b, as Python's a % b. Exact for integers, and for floats
/// whose quotient is below 2^28; f64 rounds at the precision of a. Dtypes and errors: as
/// floor_divide. The gradient flows to a, and times -floor(a / b) to b.
[[nodiscard]] Tensor remainder(Arg a, Arg b);
[[nodiscard]] Tensor minimum(Arg a,
                             Arg b);         ///< Equal operands get half of the gradient each.
[[nodiscard]] Tensor maximum(Arg a, Arg b);  ///< Gradient as minimum's.
/// The angle of the point (x, y), from -π to π, as std::atan2. Gradient at the origin: NaN.
[[nodiscard]] Tensor atan2(Arg y, Arg x);
[[nodiscard]] Tensor equal(Arg a, Arg b);
[[nodiscard]] Tensor not_equal(Arg a, Arg b);
[[nodiscard]] Tensor less(Arg a, Arg b);
[[nodiscard]] Tensor less_equal(Arg a, Arg b);
[[nodiscard]] Tensor greater(Arg a, Arg b);
[[nodiscard]] Tensor greater_equal(Arg a, Arg b);
/// Elementwise condition ? a : b; condition is bool.
[[nodiscard]] Tensor where(Arg condition, Arg a, Arg b);
/// `value` where the mask is true, else x. Shapes: x and mask broadcast; `value` is a number or a
/// tensor of rank 0. Dtypes: mask bool; value as x.
[[nodiscard]] Tensor masked_fill(Arg x, Arg mask, Arg value);
/// Logical ops give bool; every value but 0, also NaN, is true. Dtypes: all.
[[nodiscard]] Tensor logical_and(Arg a, Arg b);
[[nodiscard]] Tensor logical_or(Arg a, Arg b);
[[nodiscard]] Tensor logical_xor(Arg a, Arg b);
[[nodiscard]] Tensor logical_not(Arg x);
/// Bits of integers; of bools the logical op. Dtypes: integers and bool. No gradient.
[[nodiscard]] Tensor bitwise_and(Arg a, Arg b);
[[nodiscard]] Tensor bitwise_or(Arg a, Arg b);
[[nodiscard]] Tensor bitwise_xor(Arg a, Arg b);
[[nodiscard]] Tensor bitwise_not(Arg x);
/// Moves bits up. A negative b, and one from the type's width on, moves all out. Dtypes: integers.
[[nodiscard]] Tensor shift_left(Arg a, Arg b);
/// Moves bits down, and the sign in. A b as above leaves the sign, -1 or 0.
[[nodiscard]] Tensor shift_right(Arg a, Arg b);

// Operators take Arg, which records the caller's line and whether an operand was moved in. `a + 1`
// and `1 / a` work. Comparisons, also == and !=, are elementwise and give a bool tensor, as in
// PyTorch. A tensor is no condition, so `if (a == b)` does not compile; write all_equal(a, b),
// which waits.
[[nodiscard]] inline Tensor operator+(Arg a, Arg b) {
  return add(a, b);
}
[[nodiscard]] inline Tensor operator-(Arg a, Arg b) {
  return sub(a, b);
}
[[nodiscard]] inline Tensor operator*(Arg a, Arg b) {
  return mul(a, b);
}
[[nodiscard]] inline Tensor operator/(Arg a, Arg b) {
  return div(a, b);
}
[[nodiscard]] inline Tensor operator-(Arg x) {
  return neg(x);
}
[[nodiscard]] inline Tensor operator==(Arg a, Arg b) {
  return equal(a, b);
}
[[nodiscard]] inline Tensor operator!=(Arg a, Arg b) {
  return not_equal(a, b);
}
[[nodiscard]] inline Tensor operator<(Arg a, Arg b) {
  return less(a, b);
}
[[nodiscard]] inline Tensor operator<=(Arg a, Arg b) {
  return less_equal(a, b);
}
[[nodiscard]] inline Tensor operator>(Arg a, Arg b) {
  return greater(a, b);
}
[[nodiscard]] inline Tensor operator>=(Arg a, Arg b) {
  return greater_equal(a, b);
}
/// bitwise_and and its kin: bits of integers, truth of bools. Errors: DtypeError for floats.
[[nodiscard]] Tensor operator&(Arg a, Arg b);
[[nodiscard]] Tensor operator|(Arg a, Arg b);
[[nodiscard]] Tensor operator^(Arg a, Arg b);
[[nodiscard]] Tensor operator~(Arg x);
[[nodiscard]] Tensor operator!(Arg x);  ///< Inverts bools. Errors: DtypeError for others.

/// a = a + b. Rebinds `a` to the result; other copies of the tensor keep their values. If there are
/// none, the device reuses a's memory. Keeps a's path and dtype: f32 += f64 is f32.
///
/// Errors: as add(); ShapeError if a's shape would grow; DtypeError if the result's kind of type
/// differs (i32 += 0.5). On an error `a` is unchanged.
Tensor& operator+=(Tensor& a, Arg b);
Tensor& operator-=(Tensor& a, Arg b);
Tensor& operator*=(Tensor& a, Arg b);
Tensor& operator/=(Tensor& a, Arg b);

/// Returns whether shape, dtype and every element are equal. Waits for the values; NaN equals
/// nothing.
/// Errors: DeviceMismatch now; DeviceError if an operand is poisoned.
[[nodiscard]] bool all_equal(Arg a, Arg b);

// ---- views: bytes move only if the strides demand it ----
/// One entry of `shape` may be -1: it is computed from the others.
[[nodiscard]] Tensor reshape(Arg x, std::span<const std::int64_t> shape);
[[nodiscard]] Tensor reshape(Arg x, std::initializer_list<std::int64_t> shape);
[[nodiscard]] Tensor reshape(Arg x, const std::vector<std::int64_t>& shape);
[[nodiscard]] Tensor reshape(Arg x, const std::vector<int>& shape);
[[nodiscard]] Tensor reshape(Arg x, const Shape& shape);
/// Joins the axes from `first` to the last into one. The layer Flatten keeps axis 0.
[[nodiscard]] Tensor flatten(Arg x, int first = 0);
[[nodiscard]] Tensor permute(Arg x, std::initializer_list<int> axes);
[[nodiscard]] Tensor permute(Arg x, std::span<const int> axes);
/// Swaps two axes; the last two by default.
[[nodiscard]] Tensor transpose(Arg x, int axis_a = -2, int axis_b = -1);
/// The part of one axis that a Range (indices.hpp) selects: slice(x, 1, {.start = -1}).
[[nodiscard]] Tensor slice(Arg x, int axis, Range range);
[[nodiscard]] Tensor expand(Arg x, const Shape& shape);
[[nodiscard]] Tensor unsqueeze(Arg x, int axis);
[[nodiscard]] Tensor squeeze(Arg x, int axis);
/// Splits an axis into views of length `size`; the last one holds the rest.
/// Errors: ArgumentError if size is below 1 and the axis has elements.
[[nodiscard]] std::vector<Tensor> split(Arg x, std::int64_t size, int axis = 0);
/// Splits an axis into views of these sizes. Errors: ShapeError if they do not sum to the axis's
/// size.
[[nodiscard]] std::vector<Tensor> split(Arg x, std::span<const std::int64_t> sizes, int axis = 0);
[[nodiscard]] std::vector<Tensor> split(Arg x,
                                        std::initializer_list<std::int64_t> sizes,
                                        int axis = 0);
/// Splits an axis into at most `count` parts of equal size, the last one possibly smaller. A short
/// axis gives fewer parts, as in PyTorch. Errors: ArgumentError if count is below 1.
[[nodiscard]] std::vector<Tensor> chunk(Arg x, std::int64_t count, int axis = 0);
/// Zeroes the elements above diagonal number `diagonal` of each matrix in the last two axes. 0 is
/// the main diagonal, 1 the one above it. Errors: ShapeError for ranks below 2.
[[nodiscard]] Tensor tril(Arg x, std::int64_t diagonal = 0);
/// Zeroes the elements below diagonal number `diagonal`; otherwise as tril.
[[nodiscard]] Tensor triu(Arg x, std::int64_t diagonal = 0);
/// Copies the values into row-major memory, if needed.
[[nodiscard]] Tensor contiguous(Arg x);
/// Joins tensors along an existing axis: concat({a, b}), concat(vector, -1).
/// Dtypes: all are promoted to one type (promote_types).
[[nodiscard]] Tensor concat(std::span<const Tensor> tensors,
                            int axis = 0,
                            SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor concat(std::initializer_list<Tensor> tensors,
                            int axis = 0,
                            SourceLoc loc = SourceLoc::current());
/// Joins tensors along a new axis. Shapes: all equal; the result has one axis more, of size
/// tensors.size(). Dtypes: as concat.
[[nodiscard]] Tensor stack(std::span<const Tensor> tensors,
                           int axis = 0,
                           SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor stack(std::initializer_list<Tensor> tensors,
                           int axis = 0,
                           SourceLoc loc = SourceLoc::current());
/// Tiles x along each axis, as torch.Tensor.repeat: repeat(x, {2, 1}).
///
/// Shapes: one count for each axis; counts beyond x's rank add axes in front.
/// Errors: ArgumentError for a negative count, and for fewer counts than axes.
[[nodiscard]] Tensor repeat(Arg x, std::span<const std::int64_t> counts);
[[nodiscard]] Tensor repeat(Arg x, std::initializer_list<std::int64_t> counts);
/// Reverses the order of the elements along the axes; all axes if none is given.
/// Errors: ArgumentError for an axis outside x, or named twice.
[[nodiscard]] Tensor flip(Arg x, Axes axes = {});
/// Moves the elements along an axis by `shift` places: x[i] becomes result[i + shift]. Those beyond
/// the end come back at the start. roll(x, shift) moves them in row-major order through all axes.
[[nodiscard]] Tensor roll(Arg x, std::int64_t shift);
[[nodiscard]] Tensor roll(Arg x, std::int64_t shift, int axis);
/// Rolls several axes: roll(x, {1, -2}, {0, 1}). Shifts of one axis that is named twice add up.
/// Errors: ArgumentError for other numbers of shifts than of axes.
[[nodiscard]] Tensor roll(Arg x, std::span<const std::int64_t> shifts, Axes axes);
[[nodiscard]] Tensor roll(Arg x, std::initializer_list<std::int64_t> shifts, Axes axes);
/// Padding of one axis.
struct PadAxis {
  int axis = -1;            ///< Axis that is padded.
  std::int64_t before = 0;  ///< Elements added in front of the first.
  std::int64_t after = 0;   ///< Elements added behind the last.
};
enum class PadMode : std::uint8_t {
  constant,   ///< Fills with `value`.
  reflect,    ///< Mirrors at the first and last element, without repeating it.
  replicate,  ///< Repeats the first or last element.
  circular,   ///< Continues with the opposite end.
};
struct PadOptions {
  PadMode mode = PadMode::constant;  ///< Source of the new elements.
  double value = 0;                  ///< Fill value of PadMode::constant.
};
/// Pads the ends of these axes: pad(x, {{.axis = -1, .before = 1, .after = 1}}).
///
/// Errors: ArgumentError for a size below 0, for an axis named twice, and for a value that x's type
/// does not hold. Also for more elements than the mode can take from the axis (reflect: its size
/// minus one; circular: its size; replicate needs one element).
[[nodiscard]] Tensor pad(Arg x, std::span<const PadAxis> axes, PadOptions options = {});
[[nodiscard]] Tensor pad(Arg x, std::initializer_list<PadAxis> axes, PadOptions options = {});
/// Deleted: pairs as in numpy.pad, one for each axis, would be read as {axis, before}.
[[nodiscard]] Tensor pad(Arg x,
                         std::initializer_list<std::array<std::int64_t, 2>> axes,
                         PadOptions options = {}) = delete;

// ---- indexing: along one axis, at positions that a tensor holds ----
// Dtypes of all: any, of the adding ops numbers; index i32 or i64. An index lies in [0, axis size):
// negative ones are errors. Errors of all: an index outside poisons the result with out_of_range,
// which names the index, its position and the axis. No gradient flows to an index.

/// Gathers elements along an axis: result[i, j] = x[index[i, j], j] for axis 0 of rank 2, as
/// torch.gather.
///
/// Shapes: index of x's rank and, off the axis, no longer than x; result like index.
[[nodiscard]] Tensor gather(Arg x, int axis, Arg index);
/// Gathers whole slices of x along the axis, in the order of the index.
///
/// Shapes: index [n]; result like x with n along the axis.
[[nodiscard]] Tensor index_select(Arg x, int axis, Arg index);
/// Gathers the row of a table for each index. The gradient is dense: zeros plus the sums for each
/// row.
///
/// Shapes: weight [count, ...], index [...]; result index's shape, then weight's without the first.
[[nodiscard]] Tensor embedding(Arg weight, Arg index);
/// Adds source elements to x at the indices along the axis: result[index[i, j], j] += source[i, j]
/// for axis 0 of rank 2. Sums for one position follow the order of the index, so the bits do not
/// depend on threads; 16-bit types sum in f32. The adjoint of gather.
///
/// Shapes: index of x's rank and, off the axis, no longer than x; source like index.
/// Dtypes: numbers, equal for x and source.
[[nodiscard]] Tensor scatter_add(Arg x, int axis, Arg index, Arg source);
/// Adds whole source slices to x at the indices; the adjoint of index_select.
///
/// Shapes: index [n]; source like x with n along the axis.
[[nodiscard]] Tensor index_add(Arg x, int axis, Arg index, Arg source);
struct ScatterOptions {
  ScatterMode mode = ScatterMode::set;  ///< set, add, mul, min or max.
};
/// Writes updates into x: result[index[i, j], j] = updates[i, j] for axis 0 of rank 2. Updates of
/// one element are joined in the order of the index: the last one is set. All indices are checked
/// before the first write. Reuses x's memory if x was moved in.
///
/// Shapes: index of x's rank and, off the axis, no longer than x; updates like index, or a number.
/// Dtypes: all, equal for x and updates; add and mul: numbers.
/// Note: the gradient of set goes to the last update; equal values share that of min and max.
[[nodiscard]] Tensor scatter(Arg x, int axis, Arg index, Arg updates, ScatterOptions options = {});
/// 1 where the last axis equals the index, else 0. An index outside the classes poisons the result.
///
/// Shapes: index [...]; result [..., classes]. Errors: ArgumentError if classes is below 1.
[[nodiscard]] Tensor one_hot(Arg index, std::int64_t classes, DType dtype = DType::f32);

// ---- reductions: sum(x) over all, sum(x, -1) over one axis, sum(x, {0, 2}) over several ----
struct ReduceOptions {
  bool keep_dims = false;  ///< Keeps the reduced axes with size 1: sum(x, -1, {.keep_dims = true}).
};
/// Sum over the axes. Dtypes: all; integers and bools give i64.
[[nodiscard]] Tensor sum(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Mean over the axes. Dtypes: all; integers and bools are summed in i64 and give f32.
[[nodiscard]] Tensor mean(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Maximum over the axes. Equal largest values share the gradient.
[[nodiscard]] Tensor max(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Minimum over the axes. Equal smallest values share the gradient.
[[nodiscard]] Tensor min(Arg x, Axes axes = {}, ReduceOptions options = {});
/// The product; 1 for no elements. An element's gradient is the product of the others, also if some
/// are 0. Dtypes: as sum.
[[nodiscard]] Tensor prod(Arg x, Axes axes = {}, ReduceOptions options = {});
/// True if at least one element is not 0, also for NaN; false for no elements. Dtypes: all.
[[nodiscard]] Tensor any(Arg x, Axes axes = {}, ReduceOptions options = {});
/// True if no element is 0, also for no elements.
[[nodiscard]] Tensor all(Arg x, Axes axes = {}, ReduceOptions options = {});
struct VarianceOptions {
  bool keep_dims = false;  ///< Keeps the reduced axes with size 1.
  /// The divisor is n - correction, not below 0: 1 gives the sample estimate, as in PyTorch; 0 the
  /// population variance.
  double correction = 1;
};
/// The mean squared difference from the mean, with divisor n - correction. Computed in two passes.
///
/// Dtypes: floats; f16 and bf16 are computed in f32.
[[nodiscard]] Tensor var(Arg x, Axes axes = {}, VarianceOptions options = {});
/// The square root of var. The gradient is 0 if all values are equal. Not named `std`, which a
/// program with `using namespace hearth` could not call.
[[nodiscard]] Tensor stddev(Arg x, Axes axes = {}, VarianceOptions options = {});
/// log(sum(exp(x))) without overflow; minus infinity for no elements. Dtypes: as var.
[[nodiscard]] Tensor logsumexp(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Index (i64) of the largest value along `axis`; the first of equal ones.
[[nodiscard]] Tensor argmax(Arg x, int axis, ReduceOptions options = {});
/// Index of the largest value among all elements, in row-major order.
[[nodiscard]] Tensor argmax(Arg x);
/// Index of the smallest value, as argmax.
[[nodiscard]] Tensor argmin(Arg x, int axis, ReduceOptions options = {});
[[nodiscard]] Tensor argmin(Arg x);

// ---- contractions ----
/// Matrix product; the leading axes broadcast. Rank 1 operands act as in NumPy.
/// Shapes: a [..., m, k], b [..., k, n] -> [..., m, n].
/// Dtypes: equal floats, result like them; or i8, with an exact i32 result and no gradient.
/// Errors: for i8, ShapeError if k is above 131,071: longer sums may not fit i32.
[[nodiscard]] Tensor matmul(Arg a, Arg b);
/// matmul plus bias[n] on each row. Dtypes: floats.
[[nodiscard]] Tensor matmul(Arg a, Arg b, Arg bias);
/// Sums products by an equation with one letter for each axis. "ij,jk->ik" is matmul, "ii->i" the
/// diagonal, "i,j->ij" the outer product, "bij->bji" a permutation. "..." stands for the axes
/// without a letter, which broadcast. Without "->" the result has the letters that occur once, in
/// alphabetical order. Several operands are contracted from left to right.
///
/// Dtypes: equal for all operands: floats; i32, i64 and u8 if no letter shared by two operands is
/// summed; bool for one operand.
/// Errors: ArgumentError if the equation does not parse; ShapeError if it names other axes than an
/// operand has, or a letter has two sizes; DtypeError.
/// Cost: one matmul for each pair with summed letters, else one elementwise product.
[[nodiscard]] Tensor einsum(std::string_view equation,
                            std::span<const Tensor> tensors,
                            SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor einsum(std::string_view equation,
                            std::initializer_list<Tensor> tensors,
                            SourceLoc loc = SourceLoc::current());

// Further headers of ops: activation_ops.hpp, math_ops.hpp (functions by element), window_ops.hpp
// (convolutions and pools), resample_ops.hpp, losses.hpp.

// ---- rows ----
[[nodiscard]] Tensor softmax(Arg x, int axis = -1);
[[nodiscard]] Tensor log_softmax(Arg x, int axis = -1);
/// Running sum along the axis, including each element. Floats accumulate in f64.
/// Dtypes: all; integers and bools give i64.
[[nodiscard]] Tensor cumsum(Arg x, int axis);
[[nodiscard]] Tensor cumprod(Arg x, int axis);  ///< Running product; otherwise as cumsum.
/// Running maximum; NaN from the first on. The last of equal values gets the gradient. Dtypes: all.
[[nodiscard]] Tensor cummax(Arg x, int axis);
[[nodiscard]] Tensor cummin(Arg x, int axis);  ///< Running minimum, as cummax.
struct NormOptions {
  int axis_count = 1;     ///< Number of last axes over which statistics are taken.
  double epsilon = 1e-5;  ///< Added to the variance.
};
/// (x - mean) / √(variance + epsilon)·weight + bias over the last axes, separately for each row.
///
/// Shapes: weight and bias have the sizes of these axes; the result is like x.
/// Dtypes: floats, equal for all; f16 and bf16 are computed in f32.
/// Errors: ShapeError, DtypeError; ArgumentError if x has fewer axes.
/// Paper: Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450.
[[nodiscard]] Tensor layer_norm(Arg x, NormOptions options = {});
[[nodiscard]] Tensor layer_norm(Arg x, Arg weight, NormOptions options = {});
[[nodiscard]] Tensor layer_norm(Arg x, Arg weight, Arg bias, NormOptions options = {});
/// x / √(mean of squares + epsilon)·weight; otherwise as layer_norm.
/// Paper: Zhang, Sennrich, Root Mean Square Layer Normalization, arXiv:1910.07467.
[[nodiscard]] Tensor rms_norm(Arg x, NormOptions options = {});
[[nodiscard]] Tensor rms_norm(Arg x, Arg weight, NormOptions options = {});
/// (x - mean) / √(variance + epsilon), with statistics of each example's channel groups.
///
/// Shapes: x [n, channels, ...], where groups divides channels; the result is like x.
/// Dtypes: floats; f16 and bf16 are computed in f32.
/// Errors: ShapeError, DtypeError; ArgumentError if the groups do not divide the channels.
/// Paper: Wu, He, Group Normalization, arXiv:1803.08494.
[[nodiscard]] Tensor group_norm(Arg x, std::int64_t groups, double epsilon = 1e-5);
/// group_norm times weight plus bias, both [channels].
[[nodiscard]] Tensor group_norm(
    Arg x, std::int64_t groups, Arg weight, Arg bias, double epsilon = 1e-5);
struct TopK {
  Tensor values;     ///< Selected or sorted values, in order.
  Tensor positions;  ///< Their indices along the axis, i64.
};
struct TopKOptions {
  int axis = -1;  ///< Axis along which values are selected.
  /// True: selects the largest, in descending order; false: the smallest, in ascending order.
  bool descending = true;
};
/// Selects the `count` largest or smallest values along an axis, in order; the first of equal ones.
/// NaN counts as larger than all. With count = the axis's size it sorts.
/// Shapes: both as x, with count along the axis. The values have a gradient.
/// Dtypes: numbers. Errors: ArgumentError if count is below 0 or above the axis's size.
[[nodiscard]] TopK topk(Arg x, std::int64_t count, TopKOptions options = {});
namespace detail {
struct GivenFlag {  // accepts bools alone, so no other call of topk() matches the old options
  template <std::same_as<bool> Flag>
  GivenFlag(Flag flag) noexcept : value(flag) {}  // NOLINT(google-explicit-constructor)
  bool value;
};
struct TopKByLargest {  // TopKOptions with the old name of `descending`
  int axis = -1;
  GivenFlag largest;
};
}  // namespace detail
/// Accepts the options' old name. A template, so that other calls prefer the overload above.
template <int = 0>
[[deprecated("write .descending in place of .largest, as in sort()")]] TopK topk(
    Arg x, std::int64_t count, detail::TopKByLargest options) {
  return topk(std::move(x), count, {.axis = options.axis, .descending = options.largest.value});
}
struct SortOptions {
  int axis = -1;            ///< Axis that is sorted.
  bool descending = false;  ///< True: the largest first.
};
/// Sorts along an axis; returns values and their indices. Stable; NaN counts as larger than all.
/// Shapes: both as x. The values have a gradient. Dtypes: numbers.
[[nodiscard]] TopK sort(Arg x, SortOptions options = {});
struct AttentionOptions {
  /// Query i of n attends to the keys up to i + m - n of m: the queries are the last ones.
  bool causal = false;
  std::optional<double> scale = {};  ///< Factor on the scores; 1/√d if omitted.
};
/// softmax(scale·query·keyᵀ + mask)·value for each head, without storing the score matrix.
///
/// Shapes: query [..., h, n, d], key [..., g, m, d], value [..., g, m, e] -> [..., h, n, e]; rank 2
/// is one head. h is a multiple of g: adjacent heads share keys and values. The mask broadcasts to
/// [..., h, n, m]: bool, true where a query attends to a key, or floats, which are added to the
/// scores. A query without a key gives 0.
/// Dtypes: floats, equal; f16 and bf16 are computed in f32.
/// Errors: ShapeError, DtypeError; ArgumentError for a scale that is not finite.
/// Note: plain ops add a mask of floats that needs a gradient, with the scores in memory. A query
/// without a key then gives NaN.
/// Papers: Vaswani et al., Attention Is All You Need, arXiv:1706.03762; Ainslie et al., GQA,
/// arXiv:2305.13245; Dao et al., FlashAttention, arXiv:2205.14135.
[[nodiscard]] Tensor attention(Arg query, Arg key, Arg value, AttentionOptions options = {});
[[nodiscard]] Tensor attention(
    Arg query, Arg key, Arg value, Arg mask, AttentionOptions options = {});

template <std::integral Integer>
Tensor full(const Device& device, const Shape& shape, Integer value, DType dtype, SourceLoc loc) {
  const auto integer = static_cast<std::int64_t>(value);
  return std::is_unsigned_v<Integer> && integer < 0  // 2^63 or more
             ? full(device, shape, static_cast<double>(value), dtype, loc)
             : detail::full_integer(device, shape, integer, dtype, loc);
}

}  // namespace hearth
