// Ops that select, order and count elements by their values. Errors and threads: as in ops.hpp.
// Those that wait read a few numbers, since the shape of their result depends on values. Without
// WaitOptions they wait until the deadline of the calling thread's stream. Errors of a wait: as
// Tensor::item().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <hearth/runtime/base/pending.hpp>
#include <hearth/runtime/ops.hpp>
#include <hearth/runtime/tensor.hpp>

namespace hearth {

/// Positions of the elements that are not 0, also of NaN, in row-major order. Waits for their
/// number.
///
/// Shapes: x of rank r; result [count, r].
/// Dtypes: all; result i64. No gradient.
/// Cost: one scan and one scatter over x, then r cheap ops over the result; 33 extra bytes for each
/// element of x.
[[nodiscard]] Tensor nonzero(Arg x);
[[nodiscard]] Tensor nonzero(Arg x, const WaitOptions& wait);
/// The elements of x where the mask is true, in row-major order: PyTorch's x[mask]. Waits for their
/// number.
///
/// Shapes: x and mask broadcast; result [count].
/// Dtypes: all; mask bool. The gradient flows to x.
/// Cost: as nonzero, and one gather.
[[nodiscard]] Tensor masked_select(Arg x, Arg mask);
[[nodiscard]] Tensor masked_select(Arg x, Arg mask, const WaitOptions& wait);

struct UniqueOptions {
  std::optional<int> axis = {};  ///< Axis whose slices are compared; all elements if omitted.
  bool sorted = true;            ///< False: in the order of their first places.
  bool with_first = false;       ///< True: fills UniqueValues::first.
  bool with_inverse = false;     ///< True: fills UniqueValues::inverse.
  bool with_counts = false;      ///< True: fills UniqueValues::counts.
};
struct UniqueValues {
  Tensor values;   ///< Distinct elements, [count], or slices along the axis.
  Tensor first;    ///< The first place of each, i64 [count]; empty by default.
  Tensor inverse;  ///< The number in `values` of each element of x; empty by default.
  Tensor counts;   ///< How often each occurs, i64 [count]; empty by default.
};
/// The distinct elements of x, or its distinct slices along an axis. Slices are compared from their
/// first element on. Waits for their number. Each NaN is distinct, as in PyTorch.
///
/// Shapes: values [count], or as x with `count` along the axis; inverse as x, or [axis size].
/// Dtypes: all. No gradient.
/// Errors: ArgumentError for an axis outside x.
/// Cost: one sort, two scans and some gathers. Along an axis one sort for each element of a slice.
[[nodiscard]] UniqueValues unique(Arg x, const UniqueOptions& options = {});
[[nodiscard]] UniqueValues unique(Arg x, const UniqueOptions& options, const WaitOptions& wait);

struct BincountOptions {
  Tensor weights = {};          ///< Added in place of 1. Shapes: as x; empty: 1.
  std::int64_t min_length = 0;  ///< The least number of elements of the result.
};
/// Counts each whole number from 0 to the largest one in x. Waits for the least and the largest.
///
/// Shapes: x [n]; result [max(largest + 1, min_length)].
/// Dtypes: integers; result i64, or the type of the weights, which are numbers. The gradient flows
/// to the weights.
/// Errors: ArgumentError for a number below 0 in x, and for a negative min_length; ShapeError for
/// another rank, and for weights of another shape.
/// Cost: two reductions and one scatter_add.
[[nodiscard]] Tensor bincount(Arg x, const BincountOptions& options = {});
[[nodiscard]] Tensor bincount(Arg x, const BincountOptions& options, const WaitOptions& wait);

struct SearchOptions {
  bool right = false;  ///< True: behind equal elements; false: in front of them.
};
/// The place in a sorted row at which each value keeps the row sorted. NaN counts as larger than
/// all. A row that is not sorted gives any place.
///
/// Shapes: sorted [n] and values [...]; or sorted [..., n] and values [..., m] with equal leading
/// axes. Result as values.
/// Dtypes: numbers, promoted to one type; result i64. No gradient.
/// Errors: ShapeError if the leading axes differ or `sorted` is a number.
/// Cost: log2(n) + 1 gathers of the size of the values.
[[nodiscard]] Tensor searchsorted(Arg sorted, Arg values, SearchOptions options = {});
/// The number of the interval between sorted boundaries that holds each value: searchsorted with
/// the operands swapped. Shapes: boundaries [n]; result as values.
[[nodiscard]] Tensor bucketize(Arg values, Arg boundaries, SearchOptions options = {});

/// The middle value of all elements, the lower one of two; NaN if there is one. The gradient flows
/// to the selected element.
///
/// Shapes: result [].
/// Dtypes: numbers. Errors: ArgumentError for no elements.
/// Cost: one sort.
[[nodiscard]] Tensor median(Arg x);
/// The middle value along an axis, and its index. Shapes: both as a reduction's.
[[nodiscard]] TopK median(Arg x, int axis, ReduceOptions options = {});

enum class QuantileMode : std::uint8_t {
  linear,    ///< Weighs the two neighbours by the distance.
  lower,     ///< Takes the lower neighbour.
  higher,    ///< Takes the higher neighbour.
  nearest,   ///< Takes the nearer neighbour; ties go to the even place.
  midpoint,  ///< Takes the mean of the two neighbours.
};
struct QuantileOptions {
  std::optional<int> axis = {};              ///< Reduced axis; all elements if omitted.
  QuantileMode mode = QuantileMode::linear;  ///< How a place between two elements is read.
  bool keep_dims = false;                    ///< Keeps the reduced axes with size 1.
};
/// The value below which a part `q` of the elements lies: the element at place q·(n - 1) of the
/// sorted ones. NaN if there is one. The gradient flows to the elements read.
///
/// Shapes: as a reduction's.
/// Dtypes: floats; f16 and bf16 are computed in f32.
/// Errors: ArgumentError for q outside of 0 to 1, for no elements, and for an axis outside x.
/// Cost: one sort, and a few small ops.
[[nodiscard]] Tensor quantile(Arg x, double q, QuantileOptions options = {});
/// Several quantiles with one sort. Shapes: [q.size(), ...], the rest as for one number.
[[nodiscard]] Tensor quantile(Arg x, const std::vector<double>& q, QuantileOptions options = {});

}  // namespace hearth
