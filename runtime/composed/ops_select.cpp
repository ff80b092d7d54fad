// nonzero, masked_select and unique: the device computes all places, and the host reads only their
// number.
#include <hearth/runtime/selection_ops.hpp>

#include "runtime/composed/host_wait.hpp"
#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {

using detail::At;
using detail::HostWait;

// A stable partition: true elements go to the front, the others behind them. So each element has a
// target of its own, and no two writes of the scatter meet.
Tensor detail::true_places(const Tensor& mask, const HostWait& wait, const At& at) {
  const std::int64_t size = mask.element_count();
  const Device device = mask.device();
  if (size == 0) {
    return zeros(device, {0}, DType::i64, at.location());
  }
  const Tensor running = cumsum(at(cast(at(mask), DType::i64)), 0);
  const Tensor places = arange(device, 0, static_cast<double>(size), 1, DType::i64, at.location());
  const Tensor count = slice(at(running), 0, {.start = size - 1});
  const Tensor front = sub(at(running), at(std::int64_t{1}));
  const Tensor behind = add(at(sub(at(places), at(running))), at(count));
  Tensor target = where(at(mask), at(front), at(behind));
  const Tensor order = scatter(at(places), 0, at(std::move(target)), at(places));
  const std::int64_t found = wait.values_of<std::int64_t>(count, at.location())[0];
  return slice(at(order), 0, {.start = 0, .stop = found});
}

namespace {

constexpr OpKind kSelectKind = OpKind::index_select;

// The distinct slices of x along axis 0, after the sort.
struct SortedSlices {
  Tensor order;   // i64 [n]: the places of the slices in sorted order
  Tensor is_new;  // bool [n]: whether the slice differs from the one before
};

// Sorts the rows of [n, m] by their columns, the last one first: each sort is stable.
Tensor row_order(const Tensor& rows, const At& at) {
  const Shape shape = rows.shape();
  Tensor order =
      arange(rows.device(), 0, static_cast<double>(shape[0]), 1, DType::i64, at.location());
  for (std::int64_t column = shape[1] - 1; column >= 0; --column) {
    Tensor keys = squeeze(at(slice(at(rows), 1, {.start = column, .stop = column + 1})), 1);
    keys = index_select(at(std::move(keys)), 0, at(order));
    order = index_select(at(order), 0, at(sort(at(std::move(keys)), {.axis = 0}).positions));
  }
  return order;
}

// Requires rows [n, m] of numbers, n at least 1.
SortedSlices sorted_slices(const Tensor& rows, const At& at) {
  const Shape shape = rows.shape();
  SortedSlices result;
  Tensor sorted;
  if (shape[1] == 1) {
    TopK both = sort(at(rows), {.axis = 0});
    sorted = std::move(both.values);
    result.order = reshape(at(std::move(both.positions)), {shape[0]});
  } else {
    result.order = row_order(rows, at);
    sorted = index_select(at(rows), 0, at(result.order));
  }
  Tensor differs = not_equal(at(slice(at(sorted), 0, {.start = 1})),
                             at(slice(at(sorted), 0, {.start = 0, .stop = shape[0] - 1})));
  differs = any(at(std::move(differs)), 1);
  const Tensor first = ones(rows.device(), {1}, DType::boolean, at.location());
  result.is_new = concat({first, differs}, 0, at.location());
  return result;
}

// x as rows [n, m] of numbers: a slice along the axis is a row.
Tensor slices_as_rows(const Tensor& x, std::optional<int> axis, const At& at) {
  const Shape shape = x.shape();
  Tensor rows = x.dtype() == DType::boolean ? cast(at(x), DType::u8) : x;
  if (!axis.has_value()) {
    return reshape(at(std::move(rows)), {shape.element_count(), 1});
  }
  std::vector<int> order{*axis};
  std::int64_t width = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != *axis) {
      order.push_back(i);
      width *= shape[i];
    }
  }
  return reshape(at(permute(at(std::move(rows)), order)), {shape[*axis], width});
}

Tensor numbered(const Device& device, std::int64_t count, const At& at) {
  return arange(device, 0, static_cast<double>(count), 1, DType::i64, at.location());
}

// Groups of equal slices: the first place of each, the group of each slice, and their sizes.
struct SliceGroups {
  Tensor first;
  Tensor inverse;
  Tensor counts;
};

SliceGroups grouped_slices(const Tensor& rows,
                           const UniqueOptions& options,
                           const HostWait& wait,
                           const At& at) {
  const std::int64_t size = rows.shape()[0];
  const Device device = rows.device();
  if (size == 0) {
    const Tensor none = zeros(device, {0}, DType::i64, at.location());
    return {none, none, none};
  }
  const SortedSlices sorted = sorted_slices(rows, at);
  const Tensor starts = detail::true_places(sorted.is_new, wait, at);
  const std::int64_t groups = starts.element_count();
  SliceGroups result;
  result.first = index_select(at(sorted.order), 0, at(starts));
  const Tensor end = full(device, {1}, size, DType::i64, at.location());
  const Tensor next = concat({slice(at(starts), 0, {.start = 1}), end}, 0, at.location());
  result.counts = sub(at(next), at(starts));
  if (options.with_inverse) {
    Tensor number = cumsum(at(cast(at(sorted.is_new), DType::i64)), 0);
    number = sub(at(std::move(number)), at(std::int64_t{1}));
    result.inverse = scatter(at(sorted.order), 0, at(sorted.order), at(std::move(number)));
  }
  if (!options.sorted) {
    const Tensor by_place = sort(at(result.first), {.axis = 0}).positions;
    result.first = index_select(at(result.first), 0, at(by_place));
    result.counts = index_select(at(result.counts), 0, at(by_place));
    if (options.with_inverse) {
      const Tensor renumbered =
          scatter(at(by_place), 0, at(by_place), at(numbered(device, groups, at)));
      result.inverse = index_select(at(renumbered), 0, at(result.inverse));
    }
  }
  return result;
}

Tensor nonzero_of(const Arg& x, const HostWait& wait) {
  return detail::named_as("nonzero", [&] {
    const Shape shape = detail::operand(OpKind::cast, x).layout->shape;
    const At at(x.location());
    Tensor mask = cast(at(x.tensor().detach()), DType::boolean);
    Tensor rest =
        detail::true_places(reshape(at(std::move(mask)), {shape.element_count()}), wait, at);
    if (shape.rank() == 0) {
      return zeros(rest.device(), {rest.element_count(), 0}, DType::i64, at.location());
    }
    std::vector<Tensor> columns(static_cast<std::size_t>(shape.rank()));
    for (int axis = shape.rank() - 1; axis > 0; --axis) {
      const std::int64_t size = std::max<std::int64_t>(shape[axis], 1);
      const Tensor before = div(at(rest), at(size));
      columns[static_cast<std::size_t>(axis)] = sub(at(rest), at(mul(at(before), at(size))));
      rest = before;
    }
    columns[0] = std::move(rest);
    return stack(columns, 1, at.location());
  });
}

Tensor masked_select_of(const Arg& x, const Arg& mask, const HostWait& wait) {
  return detail::named_as("masked_select", [&] {
    const TensorSpec values = detail::spec_of(kSelectKind, x);
    const TensorSpec flags = detail::spec_of(kSelectKind, mask);
    const std::array inputs{x, mask};
    const auto text = [&](std::string_view rule) {
      return fmt::format("{}: x {}, mask {}",
                         rule,
                         describe(values.dtype, values.shape),
                         describe(flags.dtype, flags.shape));
    };
    if (flags.dtype != DType::boolean) {
      detail::throw_op_error(ErrorCode::dtype_mismatch,
                             kSelectKind,
                             text("the mask is not bool"),
                             mask.location(),
                             inputs);
    }
    const Result<Shape> both = broadcast(values.shape, flags.shape);
    if (!both.has_value()) {
      detail::throw_op_error(ErrorCode::shape_mismatch,
                             kSelectKind,
                             text("shapes do not broadcast"),
                             x.location(),
                             inputs);
    }
    const At at(x.location());
    const std::int64_t count = both.value().element_count();
    const auto flat = [&](const Tensor& tensor) {
      return reshape(at(expand(at(tensor), both.value())), {count});
    };
    const Tensor places = detail::true_places(flat(mask.tensor()), wait, at);
    return index_select(at(flat(x.tensor())), 0, at(places));
  });
}

UniqueValues unique_of(const Arg& x, const UniqueOptions& options, const HostWait& wait) {
  return detail::named_as("unique", [&] {
    const Shape shape = detail::operand(kSelectKind, x).layout->shape;
    const At at(x.location());
    std::optional<int> axis = options.axis;
    if (axis.has_value()) {
      axis = detail::checked(normalize_axis("unique", *axis, shape.rank()), kSelectKind, x);
    }
    const Tensor value = x.tensor().detach();
    SliceGroups groups = grouped_slices(slices_as_rows(value, axis, at), options, wait, at);
    UniqueValues result;
    result.values =
        axis.has_value()
            ? index_select(at(value), *axis, at(groups.first))
            : index_select(at(reshape(at(value), {shape.element_count()})), 0, at(groups.first));
    if (options.with_inverse) {
      result.inverse = axis.has_value() ? std::move(groups.inverse)
                                        : reshape(at(std::move(groups.inverse)), shape.dims());
    }
    if (options.with_first) {
      result.first = std::move(groups.first);
    }
    if (options.with_counts) {
      result.counts = std::move(groups.counts);
    }
    return result;
  });
}

}  // namespace

Tensor nonzero(Arg x) {
  return nonzero_of(x, HostWait());
}
Tensor nonzero(Arg x, const WaitOptions& wait) {
  return nonzero_of(x, HostWait(wait));
}

Tensor masked_select(Arg x, Arg mask) {
  return masked_select_of(x, mask, HostWait());
}
Tensor masked_select(Arg x, Arg mask, const WaitOptions& wait) {
  return masked_select_of(x, mask, HostWait(wait));
}

UniqueValues unique(Arg x, const UniqueOptions& options) {
  return unique_of(x, options, HostWait());
}
UniqueValues unique(Arg x, const UniqueOptions& options, const WaitOptions& wait) {
  return unique_of(x, options, HostWait(wait));
}

}  // namespace hearth
