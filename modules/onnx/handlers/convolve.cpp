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

Tensor in_space(Tensor x,
                Tensor weight,
                const Tensor& bias,
                const std::vector<WindowAxis>& axes,
                std::int64_t groups) {
  const auto sides = [&](std::int64_t WindowAxis::*side) {
    return Size3d(axes[0].*side, axes[1].*side, axes[2].*side);
  };
  const Conv3dOptions options{.stride = sides(&WindowAxis::stride),
                              .padding = sides(&WindowAxis::before),
                              .dilation = sides(&WindowAxis::dilation),
                              .groups = groups};
  return bias.is_valid() ? conv3d(std::move(x), std::move(weight), bias, options)
                         : conv3d(std::move(x), std::move(weight), options);
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
      return in_space(std::move(x), std::move(weight), bias, windows, groups);
    default:
      call.refuse("a convolution has one to three spatial axes, not {}", windows.size());
  }
}

}  // namespace hearth::onnx
