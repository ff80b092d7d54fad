// Ops by the order and the counts of values: searchsorted, median, quantile, bincount.
#include <hearth/runtime/selection_ops.hpp>

#include "runtime/composed/host_wait.hpp"
#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"
#include "runtime/ops/op_promotion.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;
using detail::HostWait;

constexpr OpKind kOrderKind = OpKind::topk;

// ---- searches ----

// Whether an element of the row lies before the value, so that the search goes on behind it.
Tensor is_before(const Tensor& element, const Tensor& value, bool right, const At& at) {
  Tensor before = right ? less_equal(at(element), at(value)) : less(at(element), at(value));
  if (!is_float(value.dtype())) {
    return before;
  }
  Tensor by_nan = not_equal(at(value), at(value));  // NaN is larger than all
  if (!right) {
    by_nan = logical_and(at(std::move(by_nan)), at(equal(at(element), at(element))));
  }
  return logical_or(at(std::move(before)), at(std::move(by_nan)));
}

// Steps of falling powers of 2. Rows [r, n] and values [r, m] give places [r, m].
Tensor places_in_rows(const Tensor& rows, const Tensor& values, bool right, const At& at) {
  const std::int64_t size = rows.shape()[1];
  Tensor place = zeros(values.device(), values.shape(), DType::i64, at.location());
  if (size == 0 || values.element_count() == 0) {
    return place;
  }
  for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(size)));
       step > 0;
       step /= 2) {
    const Tensor next = add(at(place), at(step));
    const Tensor last = sub(at(minimum(at(next), at(size))), at(std::int64_t{1}));
    const Tensor element = gather(at(rows), 1, at(last));
    const Tensor moves =
        logical_and(at(less_equal(at(next), at(size))), at(is_before(element, values, right, at)));
    place = where(at(moves), at(next), at(place));
  }
  return place;
}

Tensor searched(const Arg& sorted, const Arg& values, const SearchOptions& options) {
  static_cast<void>(detail::accepted_operand(kOrderKind, sorted));
  static_cast<void>(detail::accepted_operand(kOrderKind, values));
  const TensorSpec row = detail::spec_of(kOrderKind, sorted);
  const TensorSpec wanted = detail::spec_of(kOrderKind, values);
  const std::array inputs{sorted, values};
  const int rank = row.shape.rank();
  bool fits_rows = rank == 1 || (rank > 1 && rank == wanted.shape.rank());
  for (int axis = 0; fits_rows && rank > 1 && axis < rank - 1; ++axis) {
    fits_rows = row.shape[axis] == wanted.shape[axis];
  }
  if (!fits_rows) {
    detail::throw_op_error(
        ErrorCode::shape_mismatch,
        kOrderKind,
        fmt::format("needs a sorted row [n], or rows and values with equal leading axes: "
                    "sorted {}, values {}",
                    describe(row.dtype, row.shape),
                    describe(wanted.dtype, wanted.shape)),
        sorted.location(),
        inputs);
  }
  const At at(sorted.location());
  const DType dtype = detail::common_type(OpKind::less, inputs);
  const std::int64_t size = row.shape[rank - 1];
  std::int64_t lines = 1;
  for (int axis = 0; axis < rank - 1; ++axis) {
    lines *= row.shape[axis];
  }
  const std::int64_t each = lines == 0 ? 0 : wanted.shape.element_count() / lines;
  const Tensor rows = reshape(at(cast(at(sorted.tensor().detach()), dtype)), {lines, size});
  const Tensor found = reshape(at(cast(at(values.tensor().detach()), dtype)), {lines, each});
  return reshape(at(places_in_rows(rows, found, options.right, at)), wanted.shape.dims());
}

// ---- middle values ----

// The operand of a median or quantile, with the reduced axis last.
struct OrderedRows {
  Tensor rows;    // [..., n]
  Shape reduced;  // shape of the result
};

OrderedRows ordered_rows(const Arg& x, std::optional<int> axis, bool keep_dims) {
  const TensorImpl& impl = detail::accepted_operand(kOrderKind, x);
  const Shape shape = impl.layout->shape;
  const At at(x.location());
  OrderedRows result;
  int reduced = -1;
  if (axis.has_value()) {
    reduced = detail::checked(normalize_axis("median", *axis, shape.rank()), kOrderKind, x);
  }
  const std::int64_t size = axis.has_value() ? shape[reduced] : shape.element_count();
  if (size == 0) {
    detail::throw_op_error(
        ErrorCode::invalid_argument,
        kOrderKind,
        fmt::format("there are no elements to order: {}", describe(impl.dtype, shape)),
        x);
  }
  std::vector<std::int64_t> left;
  std::vector<int> order;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool is_reduced = !axis.has_value() || i == reduced;
    if (!is_reduced) {
      order.push_back(i);
    }
    if (!is_reduced || keep_dims) {
      left.push_back(is_reduced ? 1 : shape[i]);
    }
  }
  result.reduced = Shape(left, at.location());
  if (!axis.has_value()) {
    result.rows = reshape(at(x.tensor()), {size});
    return result;
  }
  order.push_back(reduced);
  result.rows = reshape(at(permute(at(x.tensor()), order)), {result.reduced.element_count(), size});
  return result;
}

// Sorting puts NaN last: the first of them is the result, if there is one.
TopK median_of(const Arg& x, std::optional<int> axis, bool keep_dims) {
  const OrderedRows from = ordered_rows(x, axis, keep_dims);
  const At at(x.location());
  const TopK sorted = sort(at(from.rows));
  const int last = from.rows.rank() - 1;
  const std::int64_t size = from.rows.shape()[last];
  const std::int64_t middle = (size - 1) / 2;
  const auto shaped = [&](Tensor tensor) {
    return reshape(at(std::move(tensor)), from.reduced.dims());
  };
  if (!is_float(from.rows.dtype())) {
    const auto taken = [&](const Tensor& tensor) {
      return shaped(slice(at(tensor), last, {.start = middle, .stop = middle + 1}));
    };
    return {taken(sorted.values), taken(sorted.positions)};
  }
  const Tensor values = from.rows.detach();
  const Tensor nan_count = sum(at(not_equal(at(values), at(values))), last, {.keep_dims = true});
  const Tensor has_nan = greater(at(nan_count), at(std::int64_t{0}));
  const Tensor chosen = where(at(has_nan), at(sub(at(size), at(nan_count))), at(middle));
  return {shaped(gather(at(sorted.values), last, at(chosen))),
          shaped(gather(at(sorted.positions), last, at(chosen)))};
}

// Neighbours of each place q·(n - 1) among n sorted elements, and the weight of the upper one.
struct QuantilePlaces {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;
  std::vector<double> weights;
};

QuantilePlaces quantile_places(const std::vector<double>& q, std::int64_t size, QuantileMode mode) {
  QuantilePlaces places;
  for (const double part : q) {
    const double place = part * static_cast<double>(size - 1);
    double low = std::floor(place);
    double high = std::ceil(place);
    double weight = place - low;
    switch (mode) {
      case QuantileMode::linear:
        break;
      case QuantileMode::lower:
        high = low;
        break;
      case QuantileMode::higher:
        low = high;
        break;
      case QuantileMode::nearest:
        low = high = std::nearbyint(place);
        break;
      case QuantileMode::midpoint:
        weight = 0.5;
        break;
    }
    places.low.push_back(static_cast<std::int64_t>(low));
    places.high.push_back(static_cast<std::int64_t>(high));
    places.weights.push_back(low == high ? 0 : weight);
  }
  return places;
}

// Quantiles [q, rows...] of the elements along the last axis.
Tensor quantiles_of(const Arg& x, const std::vector<double>& q, const QuantileOptions& options) {
  const DType dtype = detail::accepted_operand(OpKind::sigmoid, x).dtype;
  for (const double part : q) {
    if (!(part >= 0 && part <= 1)) {
      detail::throw_op_error(
          ErrorCode::invalid_argument, kOrderKind, fmt::format("q {} is not in 0 to 1", part), x);
    }
  }
  const OrderedRows from = ordered_rows(x, options.axis, options.keep_dims);
  const At at(x.location());
  const int last = from.rows.rank() - 1;
  const std::int64_t size = from.rows.shape()[last];
  const QuantilePlaces places = quantile_places(q, size, options.mode);
  const Tensor sorted = sort(at(detail::wide(at(from.rows)))).values;
  const Shape row{static_cast<std::int64_t>(q.size())};
  const auto at_places = [&](const std::vector<std::int64_t>& list) {
    return index_select(
        at(sorted), last, at(Tensor::from(x.tensor().device(), list, row, at.location())));
  };
  Tensor low = at_places(places.low);
  if (places.low != places.high) {
    const Tensor weights =
        detail::reals_on(x.tensor().device(), places.weights, row, sorted.dtype(), at.location());
    const Tensor high = at_places(places.high);
    const Tensor between = lerp(at(low), at(high), at(weights));
    low = where(at(equal(at(low), at(high))), at(low), at(between));  // also if both are infinite
  }
  const Tensor largest = slice(at(sorted), last, {.start = size - 1});
  low = where(at(isnan(at(largest.detach()))), at(largest), at(std::move(low)));
  if (last > 0) {
    low = transpose(at(std::move(low)), 0, 1);
  }
  std::vector<std::int64_t> shape{row[0]};
  shape.insert(shape.end(), from.reduced.dims().begin(), from.reduced.dims().end());
  return cast(at(reshape(at(std::move(low)), shape)), dtype);
}

// ---- counts ----

Tensor bincount_of(const Arg& x, const BincountOptions& options, const HostWait& wait) {
  return detail::named_as("bincount", [&] {
    constexpr OpKind kKind = OpKind::scatter_add;
    const TensorImpl& impl = detail::operand(kKind, x);
    const Shape shape = impl.layout->shape;
    const auto refuse = [&](ErrorCode code, std::string_view what) {
      detail::throw_op_error(
          code, kKind, fmt::format("{}: x {}", what, describe(impl.dtype, shape)), x);
    };
    if (!is_integer(impl.dtype)) {
      refuse(ErrorCode::dtype_mismatch, "counts integers");
    }
    if (shape.rank() != 1) {
      refuse(ErrorCode::shape_mismatch, "needs a row [n]");
    }
    if (options.min_length < 0) {
      refuse(ErrorCode::invalid_argument,
             fmt::format("min_length {} is below 0", options.min_length));
    }
    const Tensor& weights = options.weights;
    const DType dtype = weights.is_valid() ? weights.dtype() : DType::i64;
    if (weights.is_valid() && weights.shape() != shape) {
      refuse(ErrorCode::shape_mismatch,
             fmt::format("weights {} differ in shape", describe(dtype, weights.shape())));
    }
    if (dtype == DType::boolean) {
      refuse(ErrorCode::dtype_mismatch, "weights are numbers, not bool");
    }
    const At at(x.location());
    const Device device = x.tensor().device();
    const Tensor numbers = cast(at(x.tensor()), DType::i64);
    std::int64_t length = options.min_length;
    if (shape[0] > 0) {
      const Tensor ends = stack({min(at(numbers)), max(at(numbers))}, 0, at.location());
      const std::vector<std::int64_t> read = wait.values_of<std::int64_t>(ends, at.location());
      if (read[0] < 0) {
        refuse(ErrorCode::invalid_argument, fmt::format("the number {} is below 0", read[0]));
      }
      length = std::max(length, read[1] + 1);
    }
    Tensor added = weights.is_valid() ? weights : ones(device, shape, dtype, at.location());
    return scatter_add(
        at(zeros(device, {length}, dtype, at.location())), 0, at(numbers), at(std::move(added)));
  });
}

}  // namespace

Tensor searchsorted(Arg sorted, Arg values, SearchOptions options) {
  return detail::named_as("searchsorted", [&] { return searched(sorted, values, options); });
}

Tensor bucketize(Arg values, Arg boundaries, SearchOptions options) {
  return detail::named_as("bucketize", [&] {
    const TensorSpec row = detail::spec_of(kOrderKind, boundaries);
    if (row.shape.rank() != 1) {
      detail::throw_op_error(
          ErrorCode::shape_mismatch,
          kOrderKind,
          fmt::format("needs boundaries [n], got {}", describe(row.dtype, row.shape)),
          boundaries);
    }
    return searched(boundaries, values, options);
  });
}

Tensor median(Arg x) {
  return detail::named_as("median", [&] { return median_of(x, {}, false).values; });
}
TopK median(Arg x, int axis, ReduceOptions options) {
  return detail::named_as("median", [&] { return median_of(x, axis, options.keep_dims); });
}

Tensor quantile(Arg x, double q, QuantileOptions options) {
  return detail::named_as(
      "quantile", [&] { return squeeze(Arg(quantiles_of(x, {q}, options), x.location()), 0); });
}
Tensor quantile(Arg x, const std::vector<double>& q, QuantileOptions options) {
  return detail::named_as("quantile", [&] { return quantiles_of(x, q, options); });
}

Tensor bincount(Arg x, const BincountOptions& options) {
  return bincount_of(x, options, HostWait());
}
Tensor bincount(Arg x, const BincountOptions& options, const WaitOptions& wait) {
  return bincount_of(x, options, HostWait(wait));
}

}  // namespace hearth
