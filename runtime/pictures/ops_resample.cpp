// interpolate: each axis is resampled by itself.
#include <hearth/runtime/axis_taps.hpp>
#include <hearth/runtime/ops.hpp>

#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

constexpr OpKind kResampleKind = OpKind::index_select;

// One axis: its sizes, and the step in the input for one element of the result.
struct ResampledAxis {
  std::int64_t from = 1;
  std::int64_t to = 1;
  double step = 1;
};

bool is_nearest(InterpolateMode mode) {
  return mode == InterpolateMode::nearest || mode == InterpolateMode::nearest_exact;
}

[[noreturn]] void refuse_interpolation(const Arg& x, ErrorCode code, std::string_view what) {
  const TensorImpl& impl = detail::operand(kResampleKind, x);
  detail::throw_op_error(code,
                         kResampleKind,
                         fmt::format("{}: x {}", what, describe(impl.dtype, impl.layout->shape)),
                         x);
}

void check_interpolation(const Arg& x, const InterpolateOptions& options) {
  const TensorImpl& impl = detail::operand(kResampleKind, x);
  const Shape& shape = impl.layout->shape;
  const auto refuse = [&](std::string_view what) {
    refuse_interpolation(x, ErrorCode::invalid_argument, what);
  };
  if (shape.rank() < 3 || shape.rank() > 5) {
    refuse_interpolation(
        x, ErrorCode::shape_mismatch, "needs [n, c, w], [n, c, h, w] or [n, c, d, h, w]");
  }
  for (int axis = 2; axis < shape.rank(); ++axis) {
    if (shape[axis] < 1) {
      refuse_interpolation(
          x, ErrorCode::shape_mismatch, fmt::format("axis {} has no elements", axis));
    }
  }
  if (!is_nearest(options.mode) && !is_float(impl.dtype)) {
    refuse_interpolation(x,
                         ErrorCode::dtype_mismatch,
                         "takes floats, unless it selects the nearest elements: cast first");
  }
  if (options.size.empty() == options.scale.empty()) {
    refuse(options.size.empty() ? "needs a size or a scale" : "takes a size or a scale, not both");
  }
  const auto axes = static_cast<std::size_t>(shape.rank() - 2);
  const std::size_t given = std::max(options.size.count(), options.scale.count());
  if (given != 1 && given != axes) {
    refuse(fmt::format("{} numbers do not fit {} axes", given, axes));
  }
  if (options.align_corners && (is_nearest(options.mode) || options.antialias)) {
    refuse("align_corners is for linear and cubic without antialias");
  }
  if (options.antialias && is_nearest(options.mode)) {
    refuse("antialias is for linear and cubic");
  }
}

ResampledAxis resampled_axis(const Arg& x, std::size_t number, const InterpolateOptions& options) {
  constexpr double kMost = 0x1p59;  // elements of a tensor
  ResampledAxis axis;
  axis.from = detail::operand(kResampleKind, x).layout->shape[static_cast<int>(number) + 2];
  const auto from = static_cast<double>(axis.from);
  if (options.scale.empty()) {
    axis.to = options.size[number];
    axis.step = from / static_cast<double>(axis.to);
  } else {
    const double scale = options.scale[number];
    const double size = std::floor(from * scale);
    axis.to = size >= 1 && size <= kMost ? static_cast<std::int64_t>(size) : 0;
    axis.step = 1 / scale;
  }
  if (axis.to < 1) {
    const std::string asked = options.scale.empty()
                                  ? fmt::format("a size of {}", options.size[number])
                                  : fmt::format("a scale of {}", options.scale[number]);
    refuse_interpolation(x,
                         ErrorCode::invalid_argument,
                         fmt::format("{} gives axis {} no elements", asked, number + 2));
  }
  if (options.align_corners) {
    axis.step = axis.to > 1 ? (from - 1) / static_cast<double>(axis.to - 1) : 0;
  }
  return axis;
}

// Sizes alone give exact quotients; a factor is a double anyway.
std::vector<std::int64_t> nearest_positions(const ResampledAxis& axis,
                                            const InterpolateOptions& options) {
  const bool is_exact = options.mode == InterpolateMode::nearest_exact;
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < axis.to; ++i) {
    std::int64_t place = 0;
    if (options.scale.empty()) {
      place = is_exact ? (2 * i + 1) * axis.from / (2 * axis.to) : i * axis.from / axis.to;
    } else {
      const double at = static_cast<double>(i) + (is_exact ? 0.5 : 0);
      place = static_cast<std::int64_t>(std::floor(at * axis.step));
    }
    positions.push_back(std::min(place, axis.from - 1));
  }
  return positions;
}

// PyTorch's antialiasing has another cubic, and no weight for elements outside.
detail::AxisTaps weighted_positions(const ResampledAxis& axis, const InterpolateOptions& options) {
  detail::TapKernel kernel{.is_cubic = options.mode == InterpolateMode::cubic};
  if (options.antialias) {
    kernel.coefficient = -0.5;
    kernel.squeeze = std::min(1.0, 1 / axis.step);
    kernel.excludes_outside = true;
  }
  std::vector<double> places;
  for (std::int64_t i = 0; i < axis.to; ++i) {
    const auto at = static_cast<double>(i);
    const double place = options.align_corners ? at * axis.step : (at + 0.5) * axis.step - 0.5;
    const bool is_bounded = options.mode == InterpolateMode::linear && !options.antialias;
    places.push_back(is_bounded ? std::max(place, 0.0) : place);
  }
  return detail::taps_at(places, axis.from, kernel);
}

}  // namespace

Tensor interpolate(Arg x, InterpolateOptions options) {
  return detail::named_as("interpolate", [&] {
    check_interpolation(x, options);
    const int rank = detail::operand(kResampleKind, x).layout->shape.rank();
    std::vector<ResampledAxis> axes;
    for (int axis = 2; axis < rank; ++axis) {
      axes.push_back(resampled_axis(x, static_cast<std::size_t>(axis) - 2, options));
    }
    const detail::At at(x.location());
    const DType dtype = x.tensor().dtype();
    Tensor result = is_nearest(options.mode) ? detail::take(x) : detail::wide(x);
    for (int axis = 2; axis < rank; ++axis) {
      const ResampledAxis& sizes = axes[static_cast<std::size_t>(axis) - 2];
      result =
          is_nearest(options.mode)
              ? detail::elements_at(
                    std::move(result), axis, nearest_positions(sizes, options), at.location())
              : detail::sum_taps(result, axis, weighted_positions(sizes, options), at.location());
    }
    return cast(at(std::move(result)), dtype);
  });
}

}  // namespace hearth
