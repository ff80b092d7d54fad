// Diagonals, grids of coordinates, and products of all pairs.
#include <hearth/runtime/matrix_ops.hpp>
#include <hearth/runtime/ops.hpp>

#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;

constexpr OpKind kMatrixKind = OpKind::where;

[[noreturn]] void refuse_matrix(ErrorCode code, std::string_view what, const Arg& x) {
  const TensorSpec spec = detail::spec_of(kMatrixKind, x);
  detail::throw_op_error(
      code, kMatrixKind, fmt::format("{}: {}", what, describe(spec.dtype, spec.shape)), x);
}

// The axes of a tensor of this rank, with those of the matrices last.
struct MatrixAxes {
  int rows = 0;
  int columns = 0;

  [[nodiscard]] std::vector<int> last(int rank) const {
    std::vector<int> order;
    for (int axis = 0; axis < rank; ++axis) {
      if (axis != rows && axis != columns) {
        order.push_back(axis);
      }
    }
    order.push_back(rows);
    order.push_back(columns);
    return order;
  }
};

MatrixAxes matrix_axes(std::string_view op,
                       const Arg& x,
                       int rank,
                       const DiagonalOptions& options) {
  const auto axis = [&](int given) {
    return detail::checked(normalize_axis(op, given, rank), kMatrixKind, x);
  };
  const MatrixAxes axes{axis(options.rows), axis(options.columns)};
  if (axes.rows == axes.columns) {
    refuse_matrix(ErrorCode::invalid_argument,
                  fmt::format("rows and columns are both axis {}", axes.rows),
                  x);
  }
  return axes;
}

// A diagonal of row-major matrices is every (columns + 1)-th element.
Tensor diagonal_of(const Arg& x, const DiagonalOptions& options) {
  const Shape shape = detail::operand(kMatrixKind, x).layout->shape;
  const int rank = shape.rank();
  if (rank < 2) {
    refuse_matrix(ErrorCode::shape_mismatch, "needs matrices", x);
  }
  const At at(x.location());
  const MatrixAxes axes = matrix_axes("diagonal", x, rank, options);
  const std::int64_t rows = shape[axes.rows];
  const std::int64_t columns = shape[axes.columns];
  const std::int64_t offset = std::clamp(options.offset, -rows, columns);
  const std::int64_t start = offset >= 0 ? offset : -offset * columns;
  const std::int64_t length = std::max<std::int64_t>(
      offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns), 0);
  Tensor flat = permute(at(x.tensor()), axes.last(rank));
  std::vector<std::int64_t> sizes(flat.shape().dims().begin(), flat.shape().dims().end() - 2);
  sizes.push_back(rows * columns);
  flat = reshape(at(std::move(flat)), sizes);
  if (length == 0) {
    return slice(at(flat), -1, {.start = 0, .stop = 0});
  }
  const std::int64_t step = columns + 1;
  return slice(
      at(flat), -1, {.start = start, .stop = start + (length - 1) * step + 1, .step = step});
}

Tensor embedded(const Arg& x, const DiagonalOptions& options) {
  const Shape shape = detail::operand(kMatrixKind, x).layout->shape;
  if (shape.rank() < 1) {
    refuse_matrix(ErrorCode::shape_mismatch, "needs a row of elements", x);
  }
  const At at(x.location());
  const int rank = shape.rank() + 1;
  const MatrixAxes axes = matrix_axes("diag_embed", x, rank, options);
  const bool is_above = options.offset >= 0;
  const std::int64_t beside = is_above ? options.offset : -options.offset;
  const std::int64_t size = shape[shape.rank() - 1] + beside;
  const Device device = x.tensor().device();
  // Row r of a diagonal above holds element r; column c of one below holds element c.
  Tensor value = x.tensor();
  if (beside > 0) {
    value = pad(at(std::move(value)), {PadAxis{.axis = -1, .after = beside}});
  }
  value = unsqueeze(at(std::move(value)), is_above ? -1 : -2);
  const auto places = [&](std::int64_t from) {
    return arange(device,
                  static_cast<double>(from),
                  static_cast<double>(from + size),
                  1,
                  DType::i64,
                  at.location());
  };
  const Tensor wanted = reshape(at(places(options.offset)), {size, 1});
  const Tensor is_on = equal(at(places(0)), at(wanted));
  const Tensor zero = zeros(device, {}, value.dtype(), at.location());
  Tensor result = where(at(is_on), at(std::move(value)), at(zero));
  std::vector<int> order(static_cast<std::size_t>(rank));
  const std::vector<int> last = axes.last(rank);
  for (int i = 0; i < rank; ++i) {
    order[static_cast<std::size_t>(last[static_cast<std::size_t>(i)])] = i;
  }
  return permute(at(std::move(result)), order);
}

std::vector<Tensor> grid_of(std::span<const Tensor> tensors,
                            const MeshgridOptions& options,
                            SourceLoc loc) {
  if (tensors.empty()) {
    detail::throw_op_error(
        ErrorCode::invalid_argument, OpKind::expand, "needs at least one tensor", loc);
  }
  std::vector<std::size_t> axis_of(tensors.size());
  for (std::size_t i = 0; i < axis_of.size(); ++i) {
    axis_of[i] = i;
  }
  if (options.order == MeshgridOrder::xy && tensors.size() > 1) {
    std::swap(axis_of[0], axis_of[1]);
  }
  std::vector<std::int64_t> sizes(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Arg x(tensors[i], loc);
    const Shape shape = detail::operand(OpKind::expand, x).layout->shape;
    if (shape.rank() > 1) {
      refuse_matrix(ErrorCode::shape_mismatch, fmt::format("tensor {} is no row [n]", i), x);
    }
    sizes[axis_of[i]] = shape.element_count();
  }
  const Shape whole(sizes, loc);
  std::vector<Tensor> views;
  views.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<std::int64_t> own(tensors.size(), 1);
    own[axis_of[i]] = sizes[axis_of[i]];
    views.push_back(expand(Arg(reshape(Arg(tensors[i], loc), own), loc), whole));
  }
  return views;
}

// x with axes of size 1 in front up to `rank`, and one before or behind each axis.
Tensor spread(const Tensor& x, int rank, bool is_before, const At& at) {
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < rank; ++axis) {
    const int own = axis - (rank - x.rank());
    const std::int64_t size = own < 0 ? 1 : x.shape()[own];
    sizes.push_back(is_before ? 1 : size);
    sizes.push_back(is_before ? size : 1);
  }
  return reshape(at(x), sizes);
}

}  // namespace

Tensor diagonal(Arg x, DiagonalOptions options) {
  return detail::named_as("diagonal", [&] { return diagonal_of(x, options); });
}

Tensor diag_embed(Arg x, DiagonalOptions options) {
  return detail::named_as("diag_embed", [&] { return embedded(x, options); });
}

Tensor trace(Arg x) {
  return detail::named_as("trace", [&] { return sum(Arg(diagonal_of(x, {}), x.location()), -1); });
}

std::vector<Tensor> meshgrid(std::span<const Tensor> tensors,
                             MeshgridOptions options,
                             SourceLoc loc) {
  return detail::named_as("meshgrid", [&] { return grid_of(tensors, options, loc); });
}
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> tensors,
                             MeshgridOptions options,
                             SourceLoc loc) {
  return meshgrid(std::span<const Tensor>(tensors.begin(), tensors.size()), options, loc);
}

Tensor outer(Arg a, Arg b) {
  return detail::named_as("outer", [&] {
    for (const Arg& x : {a, b}) {
      if (detail::accepted_operand(OpKind::mul, x).layout->shape.rank() != 1) {
        refuse_matrix(ErrorCode::shape_mismatch, "needs two rows [n] and [m]", x);
      }
    }
    const At at(a.location());
    return mul(at(unsqueeze(at(a.tensor()), 1)), at(unsqueeze(at(b.tensor()), 0)));
  });
}

Tensor kron(Arg a, Arg b) {
  return detail::named_as("kron", [&] {
    for (const Arg& x : {a, b}) {
      if (detail::accepted_operand(OpKind::mul, x).layout->shape.rank() > kMaxRank / 2) {
        refuse_matrix(ErrorCode::shape_mismatch, "has more than 4 axes", x);
      }
    }
    const At at(a.location());
    const int rank = std::max(a.tensor().rank(), b.tensor().rank());
    Tensor product =
        mul(at(spread(a.tensor(), rank, false, at)), at(spread(b.tensor(), rank, true, at)));
    std::vector<std::int64_t> sizes;
    for (int axis = 0; axis < rank; ++axis) {
      sizes.push_back(product.shape()[2 * axis] * product.shape()[2 * axis + 1]);
    }
    return reshape(at(std::move(product)), sizes);
  });
}

}  // namespace hearth
