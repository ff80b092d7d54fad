// The ops that users call. Each checks its operands, infers shape and dtype, and enqueues one
// record on the calling thread's stream; it returns at once with the result's Tensor. Errors of
// all: ShapeError, DtypeError, DeviceMismatch, ArgumentError now, on the caller's thread, with
// nothing queued; DeviceError when a result is read whose computing failed. Threads: any. Dtypes:
// where nothing is said, the op table's row holds (streams/op_table), and operands of several types
// meet as promotion.hpp says.
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

#include <hearth/runtime/axes.hpp>
#include <hearth/runtime/device.hpp>
#include <hearth/runtime/generator.hpp>
#include <hearth/runtime/losses.hpp>
#include <hearth/runtime/optional_arg.hpp>
#include <hearth/runtime/promotion.hpp>
#include <hearth/runtime/size2d.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

// ---- creation ----
/// All elements the same number; as all tensors made of numbers f32 unless `dtype` says otherwise.
/// An integer of 64 bits keeps all its digits. Errors: ArgumentError when `dtype` cannot hold it.
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
/// start, start + step, …: ceil((stop - start) / step) values.
/// Errors: ArgumentError when `dtype` cannot hold one of them.
[[nodiscard]] Tensor arange(const Device& device,
                            double start,
                            double stop,
                            double step = 1,
                            DType dtype = DType::f32,
                            SourceLoc loc = SourceLoc::current());
/// `count` values from `start` to `stop`, both among them, at equal distances; one value is
/// `start`. Dtypes: floats. Errors: ArgumentError for a count below 0, and for ends that `dtype`
/// cannot hold.
[[nodiscard]] Tensor linspace(const Device& device,
                              double start,
                              double stop,
                              std::int64_t count,
                              DType dtype = DType::f32,
                              SourceLoc loc = SourceLoc::current());
/// 1 on the main diagonal, else 0. Shapes: [rows, columns]; square when columns are left out.
[[nodiscard]] Tensor eye(const Device& device,
                         std::int64_t rows,
                         std::optional<std::int64_t> columns = {},
                         DType dtype = DType::f32,
                         SourceLoc loc = SourceLoc::current());
/// Uniform in [low, high): rounding to `dtype` gives neither high nor less than low. An empty
/// range, low == high, gives low. Errors: ArgumentError when the range has no value of `dtype`, or
/// goes beyond its largest.
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
/// Whole numbers, uniform in [low, high). Dtypes: integers and floats, which hold all of them.
/// Errors: ArgumentError for an empty range, for one of more than 2^53 numbers, and for ends that
/// `dtype` does not hold.
[[nodiscard]] Tensor randint(const Device& device,
                             const Shape& shape,
                             Generator& generator,
                             std::int64_t low,
                             std::int64_t high,
                             DType dtype = DType::i64,
                             SourceLoc loc = SourceLoc::current());
struct MultinomialOptions {
  bool with_replacement = false;  ///< Whether a class may be drawn more than once.
};
/// Draws classes by their weights, which need not sum to 1: i64 numbers of places. Without
/// replacement the draws of a row differ, and come in the order in which they were drawn.
///
/// Shapes: weights [classes] -> [count], or [rows, classes] -> [rows, count].
/// Dtypes: floats; f16 and bf16 are computed in f32. No gradient.
/// Errors: ArgumentError for a count below 1, or above the classes without replacement. A row with
/// a weight that is negative or not finite, or with fewer weights above 0 than it needs, poisons
/// the result with out_of_range.
/// Paper: Efraimidis, Spirakis, Weighted random sampling with a reservoir, IPL 97 (2006).
[[nodiscard]] Tensor multinomial(Arg weights,
                                 std::int64_t count,
                                 Generator& generator,
                                 MultinomialOptions options = {});

// ---- element by element ----
[[nodiscard]] Tensor cast(Arg x, DType dtype);
[[nodiscard]] Tensor neg(Arg x);
[[nodiscard]] Tensor abs(Arg x);  ///< Its gradient is 0 at 0.
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
[[nodiscard]] Tensor sigmoid(Arg x);
[[nodiscard]] Tensor recip(Arg x);
[[nodiscard]] Tensor relu(Arg x);
/// The largest whole number that is not above x. Dtypes of this and the next three: numbers;
/// integers stay as they are. The gradient of all is 0.
[[nodiscard]] Tensor floor(Arg x);
[[nodiscard]] Tensor ceil(Arg x);   ///< The smallest whole number that is not below x.
[[nodiscard]] Tensor round(Arg x);  ///< The nearest whole number; of two as near the even one.
[[nodiscard]] Tensor trunc(Arg x);  ///< The whole number towards 0.
/// 1 above 0, -1 below 0, else 0, of NaN too. Dtypes: numbers. Its gradient is 0.
[[nodiscard]] Tensor sign(Arg x);
/// x where it is above 0, else slope·x. Dtypes: floats.
/// Paper: Maas, Hannun, Ng, Rectifier nonlinearities improve neural network acoustic models, ICML
/// 2013.
[[nodiscard]] Tensor leaky_relu(Arg x, double slope = 0.01);
/// x·sigmoid(x). Dtypes: floats; f16 and bf16 are computed in f32.
/// Paper: Elfwing, Uchibe, Doya, arXiv:1702.03118.
[[nodiscard]] Tensor silu(Arg x);
enum class GeluForm : std::uint8_t {
  erf,   ///< x·Φ(x), with the normal distribution function.
  tanh,  ///< x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2, which is close to it.
};
/// Dtypes: floats; f16 and bf16 are computed in f32.
/// Paper: Hendrycks, Gimpel, Gaussian Error Linear Units, arXiv:1606.08415.
[[nodiscard]] Tensor gelu(Arg x, GeluForm form = GeluForm::erf);
/// Below `low` it is low, above `high` it is high: clamp(x, 0, 1), clamp(x, 0), clamp(x, {}, 1). A
/// bound is a number or a tensor that broadcasts; where low is above high the result is high. NaN
/// stays NaN; NaN in a tensor of bounds bounds nothing. The gradient goes to x inside the bounds
/// and on them, else to the bound.
///
/// Dtypes: numbers; the result has the type that x and the bounds meet in. Errors: ArgumentError
/// without a bound, for a NaN, and for a number that the type does not hold.
[[nodiscard]] Tensor clamp(Arg x, OptionalArg low, OptionalArg high = {});
/// Whether it is neither NaN nor infinite, as bool. Dtypes: floats.
[[nodiscard]] Tensor is_finite(Arg x);
/// Sets each element to 0 with probability p and divides the others by 1 - p.
/// Paper: Srivastava et al., Dropout, JMLR 15 (2014).
[[nodiscard]] Tensor dropout(Arg x, double p, Generator& generator);

// ---- two operands, numpy broadcasting; one of them may be a number ----
[[nodiscard]] Tensor add(Arg a, Arg b);
[[nodiscard]] Tensor sub(Arg a, Arg b);
[[nodiscard]] Tensor mul(Arg a, Arg b);
[[nodiscard]] Tensor div(Arg a, Arg b);
[[nodiscard]] Tensor pow(Arg a, Arg b);
/// floor(a / b), as Python's a // b: floor_divide(-7, 2) is -4, where div truncates integers to -3.
/// The quotient of floats is found in f64. Dtypes: numbers. Its gradient is 0.
/// Errors: dividing an integer by 0 poisons the result.
[[nodiscard]] Tensor floor_divide(Arg a, Arg b);
/// What floor_divide leaves, a - b·floor(a / b): it has b's sign, as Python's a % b. Exact for
/// integers, and for floats whose quotient is below 2^28, but for f64, which rounds as a does.
/// Dtypes and errors: as floor_divide. The gradient goes to a, and times -floor(a / b) to b.
[[nodiscard]] Tensor remainder(Arg a, Arg b);
[[nodiscard]] Tensor minimum(Arg a,
                             Arg b);  ///< Where both are equal, each gets half of the gradient.
[[nodiscard]] Tensor maximum(Arg a, Arg b);  ///< The same.
[[nodiscard]] Tensor equal(Arg a, Arg b);
[[nodiscard]] Tensor not_equal(Arg a, Arg b);
[[nodiscard]] Tensor less(Arg a, Arg b);
[[nodiscard]] Tensor less_equal(Arg a, Arg b);
[[nodiscard]] Tensor greater(Arg a, Arg b);
[[nodiscard]] Tensor greater_equal(Arg a, Arg b);
/// condition ? a : b, element by element; condition is bool.
[[nodiscard]] Tensor where(Arg condition, Arg a, Arg b);
/// value where the mask is true, else x. Shapes: x and mask broadcast; value is a number or a
/// tensor of rank 0. Dtypes: the mask is bool, value as x.
[[nodiscard]] Tensor masked_fill(Arg x, Arg mask, Arg value);
/// As bool; what is not 0 (NaN too) is true. Dtypes: all.
[[nodiscard]] Tensor logical_and(Arg a, Arg b);
[[nodiscard]] Tensor logical_or(Arg a, Arg b);
[[nodiscard]] Tensor logical_xor(Arg a, Arg b);
[[nodiscard]] Tensor logical_not(Arg x);

// Operators take Arg, so that they know the line of the caller and whether an operand was moved in.
// `a + 1`, `1 / a` work. Comparisons go element by element and give a bool tensor, as in PyTorch:
// == and != too. A tensor is never a condition by itself, so `if (a == b)` does not compile; ask
// all_equal(a, b), which waits for the answer.
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
/// Of bools, element by element: and, or, either but not both, not. Errors: DtypeError for another
/// type; no op works on the bits of integers.
[[nodiscard]] Tensor operator&(Arg a, Arg b);
[[nodiscard]] Tensor operator|(Arg a, Arg b);
[[nodiscard]] Tensor operator^(Arg a, Arg b);
[[nodiscard]] Tensor operator!(Arg x);

/// a = a + b. The name `a` gets the result; other copies of the tensor keep their values, since
/// tensors never change. When there are none, the device reuses a's memory. A path set on `a`
/// stays, and so does a's type: f32 += f64 is f32.
///
/// Errors: ShapeError when b would make a's shape grow, DtypeError when the result would be of
/// another kind of type (i32 += 0.5), besides those of add(); then `a` is as it was.
Tensor& operator+=(Tensor& a, Arg b);
Tensor& operator-=(Tensor& a, Arg b);
Tensor& operator*=(Tensor& a, Arg b);
Tensor& operator/=(Tensor& a, Arg b);

/// Whether shape, dtype and every element are the same. Waits for the values; NaN equals nothing.
/// Errors: DeviceMismatch now; DeviceError when one of them is poisoned.
[[nodiscard]] bool all_equal(Arg a, Arg b);

// ---- views: no bytes move unless the strides demand it ----
/// One entry of `shape` may be -1: it is worked out.
[[nodiscard]] Tensor reshape(Arg x, std::span<const std::int64_t> shape);
[[nodiscard]] Tensor reshape(Arg x, std::initializer_list<std::int64_t> shape);
[[nodiscard]] Tensor reshape(Arg x, const std::vector<std::int64_t>& shape);
[[nodiscard]] Tensor reshape(Arg x, const std::vector<int>& shape);
[[nodiscard]] Tensor reshape(Arg x, const Shape& shape);
/// Joins the axes `first` to the last into one, by default all. The layer Flatten keeps axis 0.
[[nodiscard]] Tensor flatten(Arg x, int first = 0);
[[nodiscard]] Tensor permute(Arg x, std::initializer_list<int> axes);
[[nodiscard]] Tensor permute(Arg x, std::span<const int> axes);
/// Swaps two axes; the last two by default.
[[nodiscard]] Tensor transpose(Arg x, int axis_a = -2, int axis_b = -1);
/// The part of one axis that a Range (indices.hpp) names: slice(x, 1, {.start = -1}).
[[nodiscard]] Tensor slice(Arg x, int axis, Range range);
[[nodiscard]] Tensor expand(Arg x, const Shape& shape);
[[nodiscard]] Tensor unsqueeze(Arg x, int axis);
[[nodiscard]] Tensor squeeze(Arg x, int axis);
/// Parts of `size` along an axis, the last one of what is left; each is a view of x.
/// Errors: ArgumentError when size is below 1 and the axis has elements.
[[nodiscard]] std::vector<Tensor> split(Arg x, std::int64_t size, int axis = 0);
/// Parts of these sizes. Errors: ShapeError when they do not make up the axis.
[[nodiscard]] std::vector<Tensor> split(Arg x, std::span<const std::int64_t> sizes, int axis = 0);
[[nodiscard]] std::vector<Tensor> split(Arg x,
                                        std::initializer_list<std::int64_t> sizes,
                                        int axis = 0);
/// At most `count` parts of one size, but for the last one, which may be smaller; fewer where the
/// axis is short, as in PyTorch. Errors: ArgumentError when count is below 1.
[[nodiscard]] std::vector<Tensor> chunk(Arg x, std::int64_t count, int axis = 0);
/// Each matrix of the last two axes with 0 above its diagonal number `diagonal` (0 is the main one,
/// 1 the one above it). Errors: ShapeError for ranks below 2.
[[nodiscard]] Tensor tril(Arg x, std::int64_t diagonal = 0);
/// The same with 0 below that diagonal.
[[nodiscard]] Tensor triu(Arg x, std::int64_t diagonal = 0);
/// The same values in row-major memory.
[[nodiscard]] Tensor contiguous(Arg x);
/// One after another along an axis that is there: concat({a, b}), concat(vector, -1). Dtypes: the
/// result has the type that all meet in (promote_types).
[[nodiscard]] Tensor concat(std::span<const Tensor> tensors,
                            int axis = 0,
                            SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor concat(std::initializer_list<Tensor> tensors,
                            int axis = 0,
                            SourceLoc loc = SourceLoc::current());
/// One after another along a new axis. Shapes: all equal; the result has one axis more, of size
/// tensors.size(). Dtypes: as concat.
[[nodiscard]] Tensor stack(std::span<const Tensor> tensors,
                           int axis = 0,
                           SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor stack(std::initializer_list<Tensor> tensors,
                           int axis = 0,
                           SourceLoc loc = SourceLoc::current());
/// x so many times over along each axis, as torch.Tensor.repeat: repeat(x, {2, 1}).
///
/// Shapes: one count an axis; counts beyond x's rank are of new axes in front.
/// Errors: ArgumentError for a negative count, and for fewer counts than axes.
[[nodiscard]] Tensor repeat(Arg x, std::span<const std::int64_t> counts);
[[nodiscard]] Tensor repeat(Arg x, std::initializer_list<std::int64_t> counts);
/// How much an axis grows at its ends.
struct PadAxis {
  int axis = -1;            ///< Which one grows.
  std::int64_t before = 0;  ///< Elements in front of the first.
  std::int64_t after = 0;   ///< Elements behind the last.
};
enum class PadMode : std::uint8_t {
  constant,   ///< With `value`.
  reflect,    ///< With what lies as far on the other side of the first or last element.
  replicate,  ///< With the first or last element.
  circular,   ///< With what lies at the other end.
};
struct PadOptions {
  PadMode mode = PadMode::constant;  ///< What the new elements are.
  double value = 0;                  ///< Value of PadMode::constant.
};
/// x with more elements at the ends of these axes: pad(x, {{.axis = -1, .before = 1, .after = 1}}).
///
/// Errors: ArgumentError for a size below 0, for an axis that is named twice, and for more elements
/// than the mode can take from the axis (reflect: one less than it has; circular: as many;
/// replicate needs one); for a value that x's type does not hold.
[[nodiscard]] Tensor pad(Arg x, std::span<const PadAxis> axes, PadOptions options = {});
[[nodiscard]] Tensor pad(Arg x, std::initializer_list<PadAxis> axes, PadOptions options = {});
/// Pairs, as numpy.pad takes them for all axes in their order, would be read as {axis, before}.
[[nodiscard]] Tensor pad(Arg x,
                         std::initializer_list<std::array<std::int64_t, 2>> axes,
                         PadOptions options = {}) = delete;

// ---- by index: along one axis, at places that a tensor names ----
// Dtypes of all: any; of the adding ones numbers; index i32 or i64. An index lies in [0, size of
// the axis): nothing counts from the end. Errors of all: an index outside poisons the result with
// out_of_range, which names it, its place and the axis. No gradient flows to an index.

/// result[i, j] = x[index[i, j], j] for axis 0 of rank 2, and so on, as torch.gather.
///
/// Shapes: index of x's rank and, off the axis, no longer than x; result like index.
[[nodiscard]] Tensor gather(Arg x, int axis, Arg index);
/// The slices of x along the axis that the index names, in its order.
///
/// Shapes: index [n]; result like x with n along the axis.
[[nodiscard]] Tensor index_select(Arg x, int axis, Arg index);
/// The row of a table for each index. Its gradient is dense: zeros, with each row's gradients
/// added.
///
/// Shapes: weight [count, ...], index [...]; result index's shape, then weight's without the first.
[[nodiscard]] Tensor embedding(Arg weight, Arg index);
/// x plus, at each index along the axis, the element of the source: result[index[i, j], j] +=
/// source[i, j] for axis 0 of rank 2. What goes to one place is summed in the order of the index,
/// so that the bits do not depend on threads; 16-bit types in f32. The adjoint of gather.
///
/// Shapes: index of x's rank and, off the axis, no longer than x; source like index.
/// Dtypes: numbers, equal for x and source.
[[nodiscard]] Tensor scatter_add(Arg x, int axis, Arg index, Arg source);
/// The same with whole slices; the adjoint of index_select.
///
/// Shapes: index [n]; source like x with n along the axis.
[[nodiscard]] Tensor index_add(Arg x, int axis, Arg index, Arg source);
/// 1 where the last axis is the index, else 0; one outside the classes poisons the result.
///
/// Shapes: index [...]; result [..., classes]. Errors: ArgumentError when classes is below 1.
[[nodiscard]] Tensor one_hot(Arg index, std::int64_t classes, DType dtype = DType::f32);

// ---- reductions: sum(x) over all, sum(x, -1) over one axis, sum(x, {0, 2}) over several ----
struct ReduceOptions {
  bool keep_dims = false;  ///< The axes stay, with size 1: sum(x, -1, {.keep_dims = true}).
};
/// Dtypes: all; integers and bools give i64.
[[nodiscard]] Tensor sum(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Dtypes: all; integers and bools are summed in i64 and give f32.
[[nodiscard]] Tensor mean(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Equal largest values share the gradient.
[[nodiscard]] Tensor max(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Equal smallest values share the gradient.
[[nodiscard]] Tensor min(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Of no elements 1. Each element's gradient is the product of the others, where some are 0 too.
/// Dtypes: as sum.
[[nodiscard]] Tensor prod(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Whether one is not 0 (NaN is not), as bool; of no elements false. Dtypes: all.
[[nodiscard]] Tensor any(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Whether none is 0; of no elements true.
[[nodiscard]] Tensor all(Arg x, Axes axes = {}, ReduceOptions options = {});
struct VarianceOptions {
  bool keep_dims = false;  ///< As ReduceOptions::keep_dims.
  /// Divides by n - correction, not below 0: 1 gives the estimate for a sample, as in PyTorch, 0
  /// the variance of the values themselves.
  double correction = 1;
};
/// The mean of the squared differences from the mean, with n - correction for n. In two passes.
///
/// Dtypes: floats; f16 and bf16 are computed in f32.
[[nodiscard]] Tensor var(Arg x, Axes axes = {}, VarianceOptions options = {});
/// The root of var: the standard deviation. Its gradient is 0 where all values are equal. (Not
/// `std`, which a program that is `using namespace hearth` could not call.)
[[nodiscard]] Tensor stddev(Arg x, Axes axes = {}, VarianceOptions options = {});
/// log(sum(exp(x))) without overflow; of no elements minus infinity. Dtypes: as var.
[[nodiscard]] Tensor logsumexp(Arg x, Axes axes = {}, ReduceOptions options = {});
/// Position of the largest value along `axis`, i64; the first of equal ones.
[[nodiscard]] Tensor argmax(Arg x, int axis, ReduceOptions options = {});
/// Its position among all elements in row-major order.
[[nodiscard]] Tensor argmax(Arg x);
/// The same of the smallest value.
[[nodiscard]] Tensor argmin(Arg x, int axis, ReduceOptions options = {});
[[nodiscard]] Tensor argmin(Arg x);

// ---- contractions ----
/// Shapes: a [..., m, k], b [..., k, n] -> [..., m, n]; leading axes broadcast; rank 1 operands act
/// as in NumPy.
/// Dtypes: floats, equal for both, and the result like them; or i8 for both, whose result is i32
/// and exact. An i8 product has no gradient. Errors: of i8, ShapeError where k is above 131,071:
/// longer sums may not fit i32.
[[nodiscard]] Tensor matmul(Arg a, Arg b);
/// matmul plus bias[n] on each row. Dtypes: floats.
[[nodiscard]] Tensor matmul(Arg a, Arg b, Arg bias);
/// Products summed as the equation says, one letter an axis: einsum("ij,jk->ik", {a, b}) is matmul,
/// "ii->i" the diagonal, "i,j->ij" the outer product, "bij->bji" a permutation, of floats, and of
/// integers where no product is summed. "..." stands for
/// the axes that no letter names, which broadcast. Without "->" the result has the letters that
/// occur once, in alphabetical order. Several operands are taken from left to right.
///
/// Dtypes: equal for all operands: floats; i32, i64 and u8 where no letter that two operands share
/// is summed; bool for one operand.
/// Errors: ArgumentError for an equation that does not parse; ShapeError when it names other axes
/// than an operand has, or a letter has two sizes; DtypeError.
/// Cost: a pair with letters to sum is one matmul, else one product element by element.
[[nodiscard]] Tensor einsum(std::string_view equation,
                            std::span<const Tensor> tensors,
                            SourceLoc loc = SourceLoc::current());
[[nodiscard]] Tensor einsum(std::string_view equation,
                            std::initializer_list<Tensor> tensors,
                            SourceLoc loc = SourceLoc::current());
struct Conv2dOptions {
  Size2d stride = 1;        ///< Elements from one window to the next.
  Size2d padding = 0;       ///< Zeros at each edge.
  Size2d dilation = 1;      ///< Elements from one tap of a window to the next.
  std::int64_t groups = 1;  ///< Parts of the channels that are convolved apart.
};
/// Shapes: x [n, c, h, w], weight [o, c/groups, kh, kw], bias [o] -> [n, o, h', w'].
[[nodiscard]] Tensor conv2d(Arg x, Arg weight, Conv2dOptions options = {});
[[nodiscard]] Tensor conv2d(Arg x, Arg weight, Arg bias, Conv2dOptions options = {});
struct Conv1dOptions {
  std::int64_t stride = 1;    ///< Elements from one window to the next.
  std::int64_t padding = 0;   ///< Zeros at each end.
  std::int64_t dilation = 1;  ///< Elements from one tap of a window to the next.
  std::int64_t groups = 1;    ///< Parts of the channels that are convolved apart.
};
/// Shapes: x [n, c, length], weight [o, c/groups, k], bias [o] -> [n, o, length'].
[[nodiscard]] Tensor conv1d(Arg x, Arg weight, Conv1dOptions options = {});
[[nodiscard]] Tensor conv1d(Arg x, Arg weight, Arg bias, Conv1dOptions options = {});
struct Pool2dOptions {
  Size2d kernel = 2;                  ///< The window's height and width.
  std::optional<Size2d> stride = {};  ///< The kernel's size when left out.
  Size2d padding = 0;             ///< Rows and columns at each edge, at most half of the kernel.
  bool count_include_pad = true;  ///< avg only
};
[[nodiscard]] Tensor max_pool2d(Arg x, Pool2dOptions options = {});
[[nodiscard]] Tensor avg_pool2d(Arg x, Pool2dOptions options = {});
/// The means of size[0]·size[1] windows that cover the picture: window i of k begins at i·n/k,
/// rounded down, and ends at (i + 1)·n/k, rounded up.
///
/// Shapes: x [n, c, h, w] -> [n, c, size[0], size[1]]. Dtypes: floats; 16-bit ones are computed in
/// f32. Errors: ShapeError for another rank or a picture without pixels; ArgumentError for a size
/// below 1.
[[nodiscard]] Tensor adaptive_avg_pool2d(Arg x, Size2d size);

// ---- rows; losses stand in losses.hpp ----
[[nodiscard]] Tensor softmax(Arg x, int axis = -1);
[[nodiscard]] Tensor log_softmax(Arg x, int axis = -1);
/// Element i along the axis is the sum of those up to i. Sums of floats are kept in f64 on the way.
/// Dtypes: all; integers and bools give i64.
[[nodiscard]] Tensor cumsum(Arg x, int axis);
struct NormOptions {
  int axis_count = 1;     ///< The last axes of x, over which statistics are taken.
  double epsilon = 1e-5;  ///< Added to the variance.
};
/// (x - mean) / √(variance + epsilon)·weight + bias over the last axes, each row by itself.
///
/// Shapes: weight and bias have the sizes of these axes; the result is like x.
/// Dtypes: floats, equal for all; f16 and bf16 are computed in f32.
/// Errors: ShapeError, DtypeError; ArgumentError when x has fewer axes.
/// Paper: Ba, Kiros, Hinton, Layer Normalization, arXiv:1607.06450.
[[nodiscard]] Tensor layer_norm(Arg x, NormOptions options = {});
[[nodiscard]] Tensor layer_norm(Arg x, Arg weight, NormOptions options = {});
[[nodiscard]] Tensor layer_norm(Arg x, Arg weight, Arg bias, NormOptions options = {});
/// x / √(mean of squares + epsilon)·weight; otherwise as layer_norm.
/// Paper: Zhang, Sennrich, Root Mean Square Layer Normalization, arXiv:1910.07467.
[[nodiscard]] Tensor rms_norm(Arg x, NormOptions options = {});
[[nodiscard]] Tensor rms_norm(Arg x, Arg weight, NormOptions options = {});
/// (x - mean) / √(variance + epsilon), with the statistics of each example's groups of channels.
///
/// Shapes: x [n, channels, ...], and groups divides channels; the result is like x.
/// Dtypes: floats; f16 and bf16 are computed in f32.
/// Errors: ShapeError, DtypeError; ArgumentError when the groups do not divide the channels.
/// Paper: Wu, He, Group Normalization, arXiv:1803.08494.
[[nodiscard]] Tensor group_norm(Arg x, std::int64_t groups, double epsilon = 1e-5);
/// The same, times weight plus bias, both [channels].
[[nodiscard]] Tensor group_norm(
    Arg x, std::int64_t groups, Arg weight, Arg bias, double epsilon = 1e-5);
struct TopK {
  Tensor values;     ///< Chosen or sorted values, in order.
  Tensor positions;  ///< i64, along the axis.
};
struct TopKOptions {
  int axis = -1;           ///< Along which one is chosen.
  bool descending = true;  ///< The largest ones; else the smallest, in ascending order.
};
/// The `count` largest along an axis, or smallest, in order, the first ones of equal ones; NaN
/// counts as larger than all. With count = the axis's size it sorts.
/// Shapes: as x, with count along the axis, both. The values have a gradient.
/// Dtypes: numbers. Errors: ArgumentError for a count below 0 or beyond the axis's size.
[[nodiscard]] TopK topk(Arg x, std::int64_t count, TopKOptions options = {});
namespace detail {
struct GivenFlag {  // of bools alone: so no other call of topk() meets the old options
  template <std::same_as<bool> Flag>
  GivenFlag(Flag flag) noexcept : value(flag) {}  // NOLINT(google-explicit-constructor)
  bool value;
};
struct TopKByLargest {  // TopKOptions with the old name of `descending`
  int axis = -1;
  GivenFlag largest;
};
}  // namespace detail
/// The options' old name. A template, so that other calls prefer those above.
template <int = 0>
[[deprecated("write .descending in place of .largest, as in sort()")]] TopK topk(
    Arg x, std::int64_t count, detail::TopKByLargest options) {
  return topk(std::move(x), count, {.axis = options.axis, .descending = options.largest.value});
}
struct SortOptions {
  int axis = -1;            ///< Along which one is sorted.
  bool descending = false;  ///< The largest first.
};
/// The values in order along an axis, and where they were; equal ones stay in their order, NaN
/// counts as larger than all. Shapes: as x, both. The values have a gradient. Dtypes: numbers.
[[nodiscard]] TopK sort(Arg x, SortOptions options = {});
struct AttentionOptions {
  /// Query i of n sees the keys up to i + m - n of m: the queries are the last ones.
  bool causal = false;
  std::optional<double> scale = {};  ///< 1/√d when left out.
};
/// softmax(scale·query·keyᵀ + mask)·value for each head, without the matrix of scores in memory.
///
/// Shapes: query [..., h, n, d], key [..., g, m, d], value [..., g, m, e] -> [..., h, n, e]; of
/// rank 2 they are one head. h is a multiple of g: heads in a row share keys and values. The mask
/// broadcasts to [..., h, n, m]: bool, true where a query sees a key, or floats, which are added to
/// the scores. A query that sees no key gives 0.
/// Dtypes: floats, equal; f16 and bf16 are computed in f32.
/// Errors: ShapeError, DtypeError; ArgumentError for a scale that is not finite.
/// Note: a mask of floats that wants a gradient is added by plain ops, with the scores in memory;
/// a query that sees no key gives NaN then.
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
