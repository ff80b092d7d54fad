// The three kinds as products of windows, which window_product.cpp and weight_product.cpp split.
// The gradient for the input is split by the remainder of a place by the stride. All places with
// one remainder use the same taps, so the zeros in between are never multiplied.
#include "convolution.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include <hearth/streams/op_attributes.hpp>

#include "product_result.hpp"
#include "window_product.hpp"

namespace hearth::gpu {
namespace {

// The layouts of x, w and y (or their gradients): [image or out channel, channel, y, x].
struct ConvolutionOperands {
  const TensorView* x;
  const TensorView* w;
  const TensorView* y;
  ConvAttributes conv;
};

std::int64_t stride(const TensorView& view, int axis) noexcept {
  return view.strides()[static_cast<std::size_t>(axis)];
}

const std::byte* behind(const TensorView& view, std::int64_t elements) noexcept {
  return view.data + elements * size_bytes(view.dtype);
}

// Windows of x that belong to the elements of y.
WindowAxis window_axis(const ConvolutionOperands& operands, int i) noexcept {
  const auto at = static_cast<std::size_t>(i);
  return {.count = operands.y->shape()[2 + i],
          .stride = operands.conv.stride[at],
          .begin = -operands.conv.padding[at],
          .tap_step = operands.conv.dilation[at],
          .taps = operands.w->shape()[2 + i],
          .source_size = operands.x->shape()[2 + i],
          .out_size = operands.y->shape()[2 + i],
          .source_stride = stride(*operands.x, 2 + i)};
}

Status forward(const KernelCall& call,
               const ConvolutionOperands& operands,
               KernelEncoder& encoder) {
  const TensorView& x = *operands.x;
  const TensorView& w = *operands.w;
  const std::int64_t groups = operands.conv.groups;
  const std::int64_t rows = w.shape()[0] / groups;
  WindowProduct product{.dtype = x.dtype,
                        .source = x.data,
                        .weight = w.data,
                        .images = x.shape()[0],
                        .groups = groups,
                        .rows = rows,
                        .channels = w.shape()[1],
                        .source_image = stride(x, 0),
                        .source_channel = stride(x, 1),
                        .weight_group = rows * stride(w, 0),
                        .weight_row = stride(w, 0),
                        .weight_channel = stride(w, 1)};
  if (call.inputs.size() > 2) {
    product.bias = call.inputs[2].data;
    product.bias_stride = stride(call.inputs[2], 0);
  }
  for (int i = 0; i < 2; ++i) {
    WindowAxis axis = window_axis(operands, i);
    axis.weight_stride = stride(w, 2 + i);
    product.axes[static_cast<std::size_t>(i)] = axis;
  }
  return encode_windows(product, call, encoder);
}

// The places of x with one remainder along an axis, and the first tap that applies to them.
struct Remainder {
  WindowAxis axis;
  std::int64_t first_tap = 0;
};

// Place i = first + q*stride of x comes from y at (i + padding - tap*dilation) / stride. Only taps
// with a whole quotient contribute: every step'th from the first.
Remainder remainder_of(const ConvolutionOperands& operands, int i, std::int64_t first) noexcept {
  const auto at = static_cast<std::size_t>(i);
  const std::int64_t by = operands.conv.stride[at];
  const std::int64_t dilation = operands.conv.dilation[at];
  const std::int64_t taps = operands.w->shape()[2 + i];
  const std::int64_t size = operands.x->shape()[2 + i];
  const std::int64_t step = by / std::gcd(by, dilation);
  const std::int64_t from = first + operands.conv.padding[at];
  std::int64_t tap = 0;
  while (tap < step && (from - tap * dilation) % by != 0) {
    ++tap;
  }
  const bool has_taps = tap < step && tap < taps;
  Remainder out{.axis = {.count = (size - first + by - 1) / by,
                         .first = first,
                         .step = by,
                         .taps = 0,
                         .source_size = operands.y->shape()[2 + i],
                         .out_size = size,
                         .source_stride = stride(*operands.y, 2 + i)}};
  if (has_taps) {
    out.first_tap = tap;
    out.axis.taps = (taps - 1 - tap) / step + 1;
    out.axis.begin = (from - tap * dilation) / by;
    out.axis.tap_step = -(dilation * step / by);
    out.axis.weight_stride = step * stride(*operands.w, 2 + i);
  }
  return out;
}

std::vector<Remainder> remainders_of(const ConvolutionOperands& operands, int i) {
  const std::int64_t count =
      std::min(operands.conv.stride[static_cast<std::size_t>(i)], operands.x->shape()[2 + i]);
  std::vector<Remainder> all;
  for (std::int64_t first = 0; first < count; ++first) {
    all.push_back(remainder_of(operands, i, first));
  }
  return all;
}

Status backward_input(const KernelCall& call,
                      const ConvolutionOperands& operands,
                      KernelEncoder& encoder) {
  const TensorView& w = *operands.w;
  const TensorView& grad = *operands.y;
  const std::int64_t groups = operands.conv.groups;
  const std::int64_t channels = w.shape()[0] / groups;
  WindowProduct product{.dtype = w.dtype,
                        .source = grad.data,
                        .images = grad.shape()[0],
                        .groups = groups,
                        .rows = w.shape()[1],
                        .channels = channels,
                        .source_image = stride(grad, 0),
                        .source_channel = stride(grad, 1),
                        .weight_group = channels * stride(w, 0),
                        .weight_row = stride(w, 1),
                        .weight_channel = stride(w, 0)};
  const std::vector<Remainder> all_across = remainders_of(operands, 1);
  for (const Remainder& down : remainders_of(operands, 0)) {
    for (const Remainder& across : all_across) {
      product.axes = {down.axis, across.axis};
      product.weight = behind(w, down.first_tap * stride(w, 2) + across.first_tap * stride(w, 3));
      HEARTH_TRY_STATUS(encode_windows(product, call, encoder));
    }
  }
  return {};
}

Status backward_weight(const KernelCall& call,
                       const ConvolutionOperands& operands,
                       KernelEncoder& encoder) {
  const TensorView& x = *operands.x;
  const TensorView& grad = *operands.y;
  const Shape& w = operands.w->shape();
  WeightProduct product{.dtype = x.dtype,
                        .source = x.data,
                        .grad = grad.data,
                        .images = x.shape()[0],
                        .groups = operands.conv.groups,
                        .rows = w[0] / operands.conv.groups,
                        .channels = w[1],
                        .source_image = stride(x, 0),
                        .source_channel = stride(x, 1),
                        .grad_image = stride(grad, 0),
                        .grad_channel = stride(grad, 1)};
  for (int i = 0; i < 2; ++i) {
    WindowAxis axis = window_axis(operands, i);
    axis.weight_stride = stride(grad, 2 + i);
    product.axes[static_cast<std::size_t>(i)] = axis;
  }
  return encode_weight_product(product, call, encoder);
}

}  // namespace

Support supports_convolution(const KernelCall& call, const DeviceLimits& limits) {
  return supports_epilogue(call, limits);
}

Status encode_convolution(const KernelCall& call, KernelEncoder& encoder) {
  if (encoder.guard() != 0) {
    return Error{.code = ErrorCode::unsupported,
                 .text = "a convolution is no part of an update group"};
  }
  const auto conv = call.op.attributes<ConvAttributes>();
  const TensorView* const first = &call.inputs[0];
  const TensorView* const second = &call.inputs[1];
  const TensorView* const out = &call.outputs[0];
  if (call.op.kind() == OpKind::conv2d) {
    return forward(call, {first, second, out, conv}, encoder);
  }
  if (call.op.kind() == OpKind::conv2d_backward_input) {
    return backward_input(call, {out, second, first, conv}, encoder);
  }
  return backward_weight(call, {first, out, second, conv}, encoder);
}

}  // namespace hearth::gpu
