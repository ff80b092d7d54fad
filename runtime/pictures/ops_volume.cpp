// Windows in three dimensions, by those of planes: conv3d, max_pool3d, avg_pool3d.
#include <hearth/runtime/ops.hpp>

#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using detail::At;

// A window along each axis of a volume, and how often it fits.
struct VolumeWindows {
  std::array<std::int64_t, 3> kernel{1, 1, 1};
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> padding{0, 0, 0};
  std::array<std::int64_t, 3> dilation{1, 1, 1};
  std::array<std::int64_t, 3> counts{0, 0, 0};
};

bool are_valid(const VolumeWindows& windows) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto lie_in = [](const std::array<std::int64_t, 3>& values, std::int64_t least) {
    return std::ranges::all_of(
        values, [least](std::int64_t value) { return value >= least && value <= kMost; });
  };
  return lie_in(windows.kernel, 1) && lie_in(windows.stride, 1) && lie_in(windows.padding, 0) &&
         lie_in(windows.dilation, 1);
}

[[noreturn]] void refuse_volume(OpKind kind,
                                ErrorCode code,
                                std::string_view what,
                                std::span<const Arg> operands) {
  constexpr std::array<std::string_view, 3> kNames{"x", "w", "bias"};
  std::string text(what);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const TensorSpec spec = detail::spec_of(kind, operands[i]);
    text +=
        fmt::format("{}{} {}", i == 0 ? ": " : ", ", kNames[i], describe(spec.dtype, spec.shape));
  }
  detail::throw_op_error(code, kind, text, operands[0].location(), operands);
}

// Counts the places of the windows. Errors: ShapeError where a window does not fit.
void count_places(OpKind kind, std::span<const Arg> operands, VolumeWindows& windows) {
  constexpr std::array<std::string_view, 3> kAxes{"depth", "height", "width"};
  const Shape shape = detail::spec_of(kind, operands[0]).shape;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t padded = shape[static_cast<int>(i) + 2] + 2 * windows.padding[i];
    const std::int64_t span = windows.dilation[i] * (windows.kernel[i] - 1) + 1;
    if (padded < span) {
      refuse_volume(kind,
                    ErrorCode::shape_mismatch,
                    fmt::format("a window of {} (dilation {}) is larger than the padded {}, {}",
                                windows.kernel[i],
                                windows.dilation[i],
                                kAxes[i],
                                padded),
                    operands);
    }
    windows.counts[i] = (padded - span) / windows.stride[i] + 1;
  }
}

VolumeWindows conv_windows(std::span<const Arg> operands, const Conv3dOptions& options) {
  constexpr OpKind kKind = OpKind::conv2d;
  std::vector<TensorSpec> specs;
  for (const Arg& operand : operands) {
    static_cast<void>(detail::operand(kKind, operand));
    specs.push_back(detail::spec_of(kKind, operand));
  }
  static_cast<void>(detail::checked(rules::result_dtype(kKind, specs), kKind, operands));
  const auto refuse = [&](ErrorCode code, const std::string& what) {
    refuse_volume(kKind, code, what, operands);
  };
  const Shape& x = specs[0].shape;
  const Shape& w = specs[1].shape;
  if (x.rank() != 5 || w.rank() != 5) {
    refuse(ErrorCode::shape_mismatch, "needs rank 5");
  }
  const std::int64_t groups = options.groups;
  if (groups < 1 || x[1] % groups != 0 || w[0] % groups != 0) {
    refuse(ErrorCode::invalid_argument,
           fmt::format("groups = {} does not divide the channels", groups));
  }
  if (w[1] != x[1] / groups) {
    refuse(ErrorCode::shape_mismatch,
           fmt::format("w needs {} input channels for groups = {}", x[1] / groups, groups));
  }
  if (specs.size() > 2 && specs[2].shape != Shape{w[0]}) {
    refuse(ErrorCode::shape_mismatch, fmt::format("bias must be [{}]", w[0]));
  }
  VolumeWindows windows{.kernel = {w[2], w[3], w[4]},
                        .stride = options.stride,
                        .padding = options.padding,
                        .dilation = options.dilation};
  if (!are_valid(windows)) {
    refuse(ErrorCode::invalid_argument,
           fmt::format("kernel, stride and dilation must be positive and padding not negative: "
                       "stride [{}], padding [{}], dilation [{}]",
                       fmt::join(windows.stride, ", "),
                       fmt::join(windows.padding, ", "),
                       fmt::join(windows.dilation, ", ")));
  }
  count_places(kKind, operands, windows);
  return windows;
}

// Planes [n·depths, c·taps, h, w]: the taps of each window in depth become channels.
Tensor planes_of_taps(Tensor x, const VolumeWindows& windows, const At& at) {
  if (windows.padding[0] > 0) {
    const PadAxis depth{.axis = 2, .before = windows.padding[0], .after = windows.padding[0]};
    x = pad(at(std::move(x)), {depth});
  }
  const Shape shape = x.shape();
  const Tensor by_depth = permute(at(std::move(x)), {0, 2, 1, 3, 4});
  std::vector<Tensor> taps;
  for (std::int64_t tap = 0; tap < windows.kernel[0]; ++tap) {
    const std::int64_t start = tap * windows.dilation[0];
    Tensor planes = slice(at(by_depth),
                          1,
                          {.start = start,
                           .stop = start + (windows.counts[0] - 1) * windows.stride[0] + 1,
                           .step = windows.stride[0]});
    taps.push_back(unsqueeze(at(std::move(planes)), 3));
  }
  Tensor all = taps.size() == 1 ? taps[0] : concat(taps, 3, at.location());
  return reshape(at(std::move(all)),
                 {shape[0] * windows.counts[0], shape[1] * windows.kernel[0], shape[3], shape[4]});
}

Tensor convolved_volume(std::span<const Arg> operands, const Conv3dOptions& options) {
  return detail::named_as("conv3d", [&] {
    const VolumeWindows windows = conv_windows(operands, options);
    const At at(operands[0].location());
    const Shape x = operands[0].tensor().shape();
    const Shape w = operands[1].tensor().shape();
    Tensor planes = planes_of_taps(detail::take(operands[0]), windows, at);
    Tensor weight = reshape(operands[1], {w[0], w[1] * w[2], w[3], w[4]});
    const Conv2dOptions in_plane{.stride = {windows.stride[1], windows.stride[2]},
                                 .padding = {windows.padding[1], windows.padding[2]},
                                 .dilation = {windows.dilation[1], windows.dilation[2]},
                                 .groups = options.groups};
    const Arg from = at(std::move(planes));
    const Arg by = at(std::move(weight));
    Tensor result =
        operands.size() > 2 ? conv2d(from, by, operands[2], in_plane) : conv2d(from, by, in_plane);
    const auto& counts = windows.counts;
    result = reshape(at(std::move(result)), {x[0], counts[0], w[0], counts[1], counts[2]});
    return contiguous(at(permute(at(std::move(result)), {0, 2, 1, 3, 4})));
  });
}

VolumeWindows pool_windows(OpKind kind, const Arg& x, const Pool3dOptions& options) {
  const std::span<const Arg> operands(&x, 1);
  static_cast<void>(detail::operand(kind, x));
  const TensorSpec spec = detail::spec_of(kind, x);
  static_cast<void>(detail::checked(rules::result_dtype(kind, {&spec, 1}), kind, x));
  if (spec.shape.rank() != 5) {
    refuse_volume(kind, ErrorCode::shape_mismatch, "needs rank 5", operands);
  }
  for (int axis = 2; axis < 5; ++axis) {
    if (spec.shape[axis] < 1) {
      refuse_volume(
          kind, ErrorCode::shape_mismatch, fmt::format("axis {} has no elements", axis), operands);
    }
  }
  VolumeWindows windows{.kernel = options.kernel,
                        .stride = options.stride.value_or(options.kernel),
                        .padding = options.padding};
  bool is_valid = are_valid(windows);
  for (std::size_t i = 0; i < 3; ++i) {
    is_valid = is_valid && windows.padding[i] <= windows.kernel[i] / 2;
  }
  if (!is_valid) {
    refuse_volume(kind,
                  ErrorCode::invalid_argument,
                  fmt::format("kernel and stride must be positive and padding at most half the "
                              "kernel: kernel [{}], stride [{}], padding [{}]",
                              fmt::join(windows.kernel, ", "),
                              fmt::join(windows.stride, ", "),
                              fmt::join(windows.padding, ", ")),
                  operands);
  }
  count_places(kind, operands, windows);
  return windows;
}

// Pools each plane, then the depths: the largest and the sum of a window are those of its planes.
template <class Pool>
Tensor pooled_volume(
    Tensor x, const VolumeWindows& windows, bool counts_padding, const At& at, const Pool& pool) {
  const Shape shape = x.shape();
  const auto& counts = windows.counts;
  const auto options = [&](Size2d kernel, Size2d stride, Size2d padding) {
    return Pool2dOptions{.kernel = kernel,
                         .stride = stride,
                         .padding = padding,
                         .count_include_pad = counts_padding};
  };
  const std::array<std::int64_t, 3>& kernel = windows.kernel;
  const std::array<std::int64_t, 3>& stride = windows.stride;
  const std::array<std::int64_t, 3>& padding = windows.padding;
  x = reshape(at(std::move(x)), {shape[0], shape[1] * shape[2], shape[3], shape[4]});
  x = pool(at(std::move(x)),
           options({kernel[1], kernel[2]}, {stride[1], stride[2]}, {padding[1], padding[2]}));
  x = reshape(at(std::move(x)), {shape[0], shape[1], shape[2], counts[1] * counts[2]});
  x = pool(at(std::move(x)), options({kernel[0], 1}, {stride[0], 1}, {padding[0], 0}));
  return reshape(at(std::move(x)), {shape[0], shape[1], counts[0], counts[1], counts[2]});
}

}  // namespace

Tensor conv3d(Arg x, Arg weight, Conv3dOptions options) {
  const std::array inputs{x, weight};
  return convolved_volume(inputs, options);
}
Tensor conv3d(Arg x, Arg weight, Arg bias, Conv3dOptions options) {
  const std::array inputs{x, weight, bias};
  return convolved_volume(inputs, options);
}

Tensor max_pool3d(Arg x, Pool3dOptions options) {
  return detail::named_as("max_pool3d", [&] {
    const VolumeWindows windows = pool_windows(OpKind::max_pool2d, x, options);
    const At at(x.location());
    return pooled_volume(detail::take(x), windows, false, at, max_pool2d);
  });
}
Tensor avg_pool3d(Arg x, Pool3dOptions options) {
  return detail::named_as("avg_pool3d", [&] {
    const VolumeWindows windows = pool_windows(OpKind::avg_pool2d, x, options);
    const At at(x.location());
    const DType dtype = x.tensor().dtype();
    Tensor mean =
        pooled_volume(detail::wide(x), windows, options.count_include_pad, at, avg_pool2d);
    return cast(at(std::move(mean)), dtype);
  });
}

}  // namespace hearth
