// grid_sample: the elements around each place, as rows of channels, times weights. affine_grid.
#include <hearth/runtime/ops.hpp>

#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"
#include "runtime/ops/op_promotion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;

constexpr OpKind kSampleKind = OpKind::index_select;

// Pictures as rows [n·d·h·w, c] of a table, and the rule by which a grid reads it.
struct SampledPictures {
  Tensor table;
  std::vector<std::int64_t> sizes;  // of the axes behind the channels
  Tensor first_rows;                // [n·places]: the row where each place's picture begins
  GridSampleOptions options;
  At at;
};

// One neighbour of each place along one axis.
struct Neighbour {
  Tensor position;  // whole numbers as floats, [n·places]
  Tensor weight;    // empty: 1
};

// From [-1, 1] to positions of an axis.
Tensor unnormalised(const Tensor& x, std::int64_t size, bool aligns_corners, const At& at) {
  const auto length = static_cast<double>(size);
  const double scale = aligns_corners ? (length - 1) / 2 : length / 2;
  Tensor place = mul(at(add(at(x), at(1.0))), at(scale));
  return aligns_corners ? place : sub(at(std::move(place)), at(0.5));
}

// Mirrors positions at the ends: the distance from the lower end modulo twice the length.
Tensor mirrored(const Tensor& x, std::int64_t size, bool aligns_corners, const At& at) {
  const double low = aligns_corners ? 0 : -0.5;
  const double length = static_cast<double>(size) - (aligns_corners ? 1 : 0);
  if (length <= 0) {
    return zeros_like(x, at.location());
  }
  const Tensor distance = abs(at(sub(at(x), at(low))));
  Tensor turns = floor(at(div(at(distance.detach()), at(2 * length))));
  const Tensor rest = sub(at(distance), at(mul(at(std::move(turns)), at(2 * length))));
  Tensor inside = minimum(at(rest), at(sub(at(2 * length), at(rest))));
  return add(at(std::move(inside)), at(low));
}

// Moves positions into the axis, as the padding demands.
Tensor bounded_places(Tensor x, std::int64_t size, const SampledPictures& from) {
  const At& at = from.at;
  if (from.options.padding == GridPadding::reflection) {
    x = mirrored(x, size, from.options.align_corners, at);
  }
  return clamp(at(std::move(x)), at(0.0), at(static_cast<double>(size - 1)));
}

// The elements at one neighbour along each axis, as rows [n·places, c], times their weights.
Tensor weighted_rows(const SampledPictures& from, std::span<const Neighbour* const> neighbours) {
  const At& at = from.at;
  const bool has_zeros = from.options.padding == GridPadding::zeros;
  Tensor row;
  Tensor is_inside;
  Tensor weight;
  for (std::size_t axis = 0; axis < neighbours.size(); ++axis) {
    const std::int64_t size = from.sizes[axis];
    const Tensor& place = neighbours[axis]->position;
    const Tensor bounded = has_zeros ? place : bounded_places(place, size, from);
    Tensor position = cast(at(bounded), DType::i64);
    if (has_zeros) {
      Tensor is_here = logical_and(at(greater_equal(at(place), at(0.0))),
                                   at(less_equal(at(place), at(static_cast<double>(size - 1)))));
      is_inside = axis == 0 ? std::move(is_here)
                            : logical_and(at(std::move(is_inside)), at(std::move(is_here)));
    }
    row = axis == 0 ? std::move(position)
                    : add(at(mul(at(std::move(row)), at(size))), at(std::move(position)));
    const Tensor& share = neighbours[axis]->weight;
    if (share.is_valid()) {
      weight = weight.is_valid() ? mul(at(std::move(weight)), at(share)) : share;
    }
  }
  if (has_zeros) {  // the first row stands for those outside
    row = where(at(is_inside), at(std::move(row)), at(std::int64_t{0}));
  }
  row = add(at(std::move(row)), at(from.first_rows));
  Tensor values = index_select(at(from.table), 0, at(std::move(row)));
  if (weight.is_valid()) {
    values = mul(at(std::move(values)), at(unsqueeze(at(std::move(weight)), 1)));
  }
  if (has_zeros) {
    values = where(at(unsqueeze(at(std::move(is_inside)), 1)), at(std::move(values)), at(0.0));
  }
  return values;
}

// Weights of the four neighbours of a fraction t, by Keys' cubic with a = -0.75.
std::array<Tensor, 4> cubic_shares(const Tensor& t, const At& at) {
  constexpr double kA = -0.75;
  const auto near = [&](const Tensor& d) {
    Tensor inner = sub(at(mul(at(d), at(kA + 2))), at(kA + 3));
    return add(at(mul(at(mul(at(std::move(inner)), at(d))), at(d))), at(1.0));
  };
  const auto far = [&](const Tensor& d) {
    Tensor inner = add(at(mul(at(sub(at(d), at(5.0))), at(d))), at(8.0));
    return mul(at(sub(at(mul(at(std::move(inner)), at(d))), at(4.0))), at(kA));
  };
  const Tensor rest = sub(at(1.0), at(t));
  return {far(add(at(t), at(1.0))), near(t), near(rest), far(add(at(rest), at(1.0)))};
}

// The neighbours along one axis of places [n·places].
std::vector<Neighbour> neighbours_of(Tensor place, std::int64_t size, const SampledPictures& from) {
  const At& at = from.at;
  const GridSampleOptions& options = from.options;
  const bool is_cubic = options.mode == GridMode::bicubic;
  // Farther outside nothing changes, and whole numbers stay exact. Taps of a cubic are bounded one
  // by one.
  const double margin = options.padding == GridPadding::zeros ? 4 : 0x1p22;
  place = clamp(at(std::move(place)), at(-margin), at(static_cast<double>(size) + margin));
  if (!is_cubic && options.padding != GridPadding::zeros) {
    place = bounded_places(std::move(place), size, from);
  }
  if (options.mode == GridMode::nearest) {
    return {{.position = round(at(place.detach())), .weight = {}}};
  }
  const Tensor low = floor(at(place.detach()));
  const Tensor fraction = sub(at(place), at(low));
  if (!is_cubic) {
    return {{.position = low, .weight = sub(at(1.0), at(fraction))},
            {.position = add(at(low), at(1.0)), .weight = fraction}};
  }
  std::vector<Neighbour> all;
  double offset = -1;
  for (Tensor& share : cubic_shares(fraction, at)) {
    all.push_back({.position = add(at(low), at(offset)), .weight = std::move(share)});
    ++offset;
  }
  return all;
}

// The sum over all combinations of neighbours along the axes.
Tensor summed_neighbours(const SampledPictures& from,
                         const std::vector<std::vector<Neighbour>>& axes) {
  std::size_t combinations = 1;
  for (const std::vector<Neighbour>& axis : axes) {
    combinations *= axis.size();
  }
  Tensor sum;
  for (std::size_t number = 0; number < combinations; ++number) {
    std::vector<const Neighbour*> chosen;
    std::size_t rest = number;
    for (const std::vector<Neighbour>& axis : axes) {
      chosen.push_back(&axis[rest % axis.size()]);
      rest /= axis.size();
    }
    Tensor part = weighted_rows(from, chosen);
    sum = number == 0 ? std::move(part) : add(from.at(std::move(sum)), from.at(std::move(part)));
  }
  return sum;
}

void check_grid_sample(const Arg& x, const Arg& grid, GridMode mode) {
  const TensorSpec pictures = detail::spec_of(kSampleKind, x);
  const TensorSpec places = detail::spec_of(kSampleKind, grid);
  const std::array inputs{x, grid};
  const auto refuse = [&](ErrorCode code, std::string_view what) {
    detail::throw_op_error(code,
                           kSampleKind,
                           fmt::format("{}: x {}, grid {}",
                                       what,
                                       describe(pictures.dtype, pictures.shape),
                                       describe(places.dtype, places.shape)),
                           x.location(),
                           inputs);
  };
  const int rank = pictures.shape.rank();
  if ((rank != 4 && rank != 5) || places.shape.rank() != rank ||
      places.shape[0] != pictures.shape[0] || places.shape[rank - 1] != rank - 2) {
    refuse(ErrorCode::shape_mismatch,
           "needs x [n, c, h, w] and grid [n, p, q, 2], or x [n, c, d, h, w] and grid "
           "[n, p, q, r, 3]");
  }
  for (int axis = 2; axis < rank; ++axis) {
    if (pictures.shape[axis] < 1) {
      refuse(ErrorCode::shape_mismatch, fmt::format("axis {} of x has no elements", axis));
    }
  }
  if (mode == GridMode::bicubic && rank != 4) {
    refuse(ErrorCode::invalid_argument, "bicubic is for pictures, not for volumes");
  }
}

// [n, c, d, h, w] becomes [n·d·h·w, c].
Tensor rows_of_channels(Tensor x, const At& at) {
  const Shape shape = x.shape();
  std::vector<int> order{0};
  std::int64_t rows = shape[0];
  for (int axis = 2; axis < shape.rank(); ++axis) {
    order.push_back(axis);
    rows *= shape[axis];
  }
  order.push_back(1);
  return reshape(at(permute(at(std::move(x)), order)), {rows, shape[1]});
}

// [n·p·q, c] becomes [n, c, p, q].
Tensor pictures_of_rows(Tensor rows, const Shape& grid, std::int64_t channels, const At& at) {
  std::vector<std::int64_t> split(grid.dims().begin(), grid.dims().end());
  split.back() = channels;
  std::vector<int> order{0, grid.rank() - 1};
  for (int axis = 1; axis < grid.rank() - 1; ++axis) {
    order.push_back(axis);
  }
  return contiguous(at(permute(at(reshape(at(std::move(rows)), split)), order)));
}

// The pictures as a table, for a grid of this shape.
SampledPictures sampled_pictures(Tensor x,
                                 const Shape& grid,
                                 const GridSampleOptions& options,
                                 const At& at) {
  const Shape shape = x.shape();
  std::int64_t places = 1;
  for (int axis = 1; axis < grid.rank() - 1; ++axis) {
    places *= grid[axis];
  }
  std::int64_t elements = 1;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    elements *= shape[axis];
  }
  Tensor first_rows = arange(x.device(),
                             0,
                             static_cast<double>(shape[0] * elements),
                             static_cast<double>(elements),
                             DType::i64,
                             at.location());
  first_rows = expand(at(reshape(at(std::move(first_rows)), {shape[0], 1})), {shape[0], places});
  return {.table = rows_of_channels(std::move(x), at),
          .sizes = std::vector<std::int64_t>(shape.dims().begin() + 2, shape.dims().end()),
          .first_rows = reshape(at(std::move(first_rows)), {shape[0] * places}),
          .options = options,
          .at = at};
}

}  // namespace

// Phases: check; rows of channels; neighbours along each axis; their sum; pictures again.
Tensor grid_sample(Arg x, Arg grid, GridSampleOptions options) {
  return detail::named_as("grid_sample", [&] {
    static_cast<void>(detail::operand(kSampleKind, x));
    static_cast<void>(detail::operand(kSampleKind, grid));
    check_grid_sample(x, grid, options.mode);
    const std::array inputs{x, grid};
    const DType dtype = detail::common_type(kSampleKind, inputs);
    if (!is_float(x.tensor().dtype()) || !is_float(grid.tensor().dtype())) {
      detail::throw_op_error(
          ErrorCode::dtype_mismatch,
          kSampleKind,
          fmt::format(
              "takes floats, not {} and {}", name(x.tensor().dtype()), name(grid.tensor().dtype())),
          x.location(),
          inputs);
    }
    const At at(x.location());
    const DType inside = compute_type(dtype);
    const Shape shape = x.tensor().shape();
    const Shape grid_shape = grid.tensor().shape();
    const int axes = shape.rank() - 2;
    const SampledPictures from = sampled_pictures(cast(x, inside), grid_shape, options, at);
    Tensor given = reshape(at(cast(grid, inside)), {from.first_rows.element_count(), axes});
    given = where(at(isnan(at(given))), at(-1.0), at(given));
    std::vector<std::vector<Neighbour>> neighbours;
    for (int axis = 0; axis < axes; ++axis) {
      const std::int64_t column = axes - 1 - axis;  // x, the last axis, comes first
      Tensor place = squeeze(at(slice(at(given), 1, {.start = column, .stop = column + 1})), 1);
      const std::int64_t size = from.sizes[static_cast<std::size_t>(axis)];
      place = unnormalised(place, size, options.align_corners, at);
      neighbours.push_back(neighbours_of(std::move(place), size, from));
    }
    Tensor rows = summed_neighbours(from, neighbours);
    return cast(at(pictures_of_rows(std::move(rows), grid_shape, shape[1], at)), dtype);
  });
}

Tensor affine_grid(Arg theta, const Shape& size, AffineGridOptions options) {
  return detail::named_as("affine_grid", [&] {
    constexpr OpKind kKind = OpKind::matmul;
    const TensorSpec maps = detail::spec_of(kKind, theta);
    const int axes = size.rank() - 2;
    if ((axes != 2 && axes != 3) || maps.shape != Shape{size[0], axes, axes + 1}) {
      detail::throw_op_error(
          ErrorCode::shape_mismatch,
          kKind,
          fmt::format("needs theta [n, 2, 3] and a size [n, c, h, w], or theta [n, 3, 4] and "
                      "[n, c, d, h, w]: theta {}, size {}",
                      describe(maps.dtype, maps.shape),
                      size.to_string()),
          theta);
    }
    static_cast<void>(detail::accepted_operand(OpKind::sigmoid, theta));
    const At at(theta.location());
    const Device device = theta.tensor().device();
    const DType dtype = maps.dtype;
    const DType inside = compute_type(dtype);
    const Shape spatial(size.dims().subspan(2));
    std::vector<Tensor> columns;
    for (int axis = axes - 1; axis >= 0; --axis) {  // x first
      const auto length = static_cast<double>(spatial[axis]);
      std::vector<double> places;
      for (std::int64_t i = 0; i < spatial[axis]; ++i) {
        const double from_centre = 2 * static_cast<double>(i) - (length - 1);
        places.push_back(from_centre /
                         (options.align_corners ? std::max(length - 1, 1.0) : length));
      }
      std::vector<std::int64_t> line(static_cast<std::size_t>(axes), 1);
      line[static_cast<std::size_t>(axis)] = spatial[axis];
      const Tensor numbers = detail::reals_on(device, places, Shape(line), inside, at.location());
      columns.push_back(expand(at(numbers), spatial));
    }
    columns.push_back(ones(device, spatial, inside, at.location()));
    Tensor base =
        reshape(at(stack(columns, -1, at.location())), {1, spatial.element_count(), axes + 1});
    Tensor grid = matmul(at(std::move(base)), at(transpose(at(cast(theta, inside)))));
    std::vector<std::int64_t> shape{size[0]};
    shape.insert(shape.end(), spatial.dims().begin(), spatial.dims().end());
    shape.push_back(axes);
    return cast(at(reshape(at(std::move(grid)), shape)), dtype);
  });
}

}  // namespace hearth
