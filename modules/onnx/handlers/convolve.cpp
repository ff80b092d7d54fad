#include "modules/onnx/handlers/convolve.hpp"

namespace hearth::onnx {
namespace {

// Pads the axes whose ends differ; the others are padded by the convolution itself.
Tensor with_uneven_pads(Tensor x, std::vector<WindowAxis>& axes) {
  std::vector<PadAxis> pads;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    WindowAxis& axis = axes[i];
    if (!axis.is_symmetric()) {
      pads.push_back({.axis = static_cast<int>(i) + 2, .before = axis.before, .after = axis.after});
      axis.size += axis.before + axis.after;
      axis.before = 0;
      axis.after = 0;
    }
  }
  return pads.empty() ? std::move(x) : pad(std::move(x), pads);
}

Tensor in_plane(Tensor x,
                Tensor weight,
                const Tensor& bias,
                const WindowAxis& rows,
                const WindowAxis& columns,
                std::int64_t groups) {
  const Conv2dOptions options{.stride = {rows.stride, columns.stride},
                              .padding = {rows.before, columns.before},
                              .dilation = {rows.dilation, columns.dilation},
                              .groups = groups};
  return bias.is_valid() ? conv2d(std::move(x), std::move(weight), bias, options)
                         : conv2d(std::move(x), std::move(weight), options);
}

// A sum over the taps in depth of convolutions of the planes below them.
Tensor in_space(Tensor x,
                const Tensor& weight,
                const Tensor& bias,
                const std::vector<WindowAxis>& axes,
                std::int64_t groups) {
  const WindowAxis& depth = axes[0];
  if (depth.before > 0) {
    x = pad(std::move(x), {{.axis = 2, .before = depth.before, .after = depth.after}});
  }
  const Shape shape = x.shape();
  Tensor result;
  for (std::int64_t tap = 0; tap < depth.kernel; ++tap) {
    const std::int64_t start = tap * depth.dilation;
    Tensor planes = slice(x,
                          2,
                          {.start = start,
                           .stop = start + (depth.count - 1) * depth.stride + 1,
                           .step = depth.stride});
    planes = reshape(transpose(std::move(planes), 1, 2),
                     {shape[0] * depth.count, shape[1], shape[3], shape[4]});
    Tensor window = squeeze(slice(weight, 2, {.start = tap, .stop = tap + 1}), 2);
    Tensor part =
        in_plane(std::move(planes), std::move(window), Tensor(), axes[1], axes[2], groups);
    result = result.is_valid() ? add(std::move(result), std::move(part)) : std::move(part);
  }
  const Shape plane = result.shape();
  result = transpose(
      reshape(std::move(result), {shape[0], depth.count, plane[1], plane[2], plane[3]}), 1, 2);
  return bias.is_valid() ? add(std::move(result), along_axis(bias, 5, 1)) : result;
}

}  // namespace

Tensor convolve(const Call& call,
                Tensor x,
                Tensor weight,
                const Tensor& bias,
                const std::vector<WindowAxis>& axes,
                std::int64_t groups) {
  std::vector<WindowAxis> windows = axes;
  x = with_uneven_pads(std::move(x), windows);
  switch (windows.size()) {
    case 1: {
      x = unsqueeze(std::move(x), 2);
      weight = unsqueeze(std::move(weight), 2);
      return squeeze(
          in_plane(std::move(x), std::move(weight), bias, WindowAxis{}, windows[0], groups), 2);
    }
    case 2:
      return in_plane(std::move(x), std::move(weight), bias, windows[0], windows[1], groups);
    case 3:
      return in_space(std::move(x), weight, bias, windows, groups);
    default:
      call.refuse("a convolution has one to three spatial axes, not {}", windows.size());
  }
}

}  // namespace hearth::onnx
