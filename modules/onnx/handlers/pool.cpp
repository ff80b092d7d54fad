// Pools. A plain one in two dimensions is one op. Any other is computed axis by axis: the largest
// element and the sum of a window are those of its lines.
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth::onnx {
namespace pool_ops {
namespace {

std::vector<WindowAxis> pool_windows(const Call& call) {
  const Sizes* const kernel = call.node().integers("kernel_shape");
  if (kernel == nullptr) {
    call.refuse("attribute kernel_shape is missing");
  }
  return windows_of(call, call.shape(0), *kernel);
}

// Whether the library's pool op does the same.
bool is_plain(const std::vector<WindowAxis>& axes, DType dtype) {
  return axes.size() == 2 && is_float(dtype) &&
         std::ranges::all_of(axes, [](const WindowAxis& axis) {
           return axis.is_symmetric() && axis.dilation == 1 && axis.before <= axis.kernel / 2 &&
                  axis.needed_after() <= axis.after;
         });
}

Pool2dOptions plain_options(const std::vector<WindowAxis>& axes) {
  return {.kernel = {axes[0].kernel, axes[1].kernel},
          .stride = Size2d{axes[0].stride, axes[1].stride},
          .padding = {axes[0].before, axes[1].before}};
}

// Pads so that every window is whole. Elements behind the last window are cut.
Tensor padded(Tensor x, const std::vector<WindowAxis>& axes, double value) {
  std::vector<PadAxis> pads;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    pads.push_back({.axis = static_cast<int>(i) + 2,
                    .before = axes[i].before,
                    .after = std::max<std::int64_t>(0, axes[i].needed_after())});
  }
  return pad(std::move(x), pads, {.value = value});
}

Tensor tap(const Tensor& x, int axis, const WindowAxis& window, std::int64_t number) {
  const std::int64_t start = number * window.dilation;
  return slice(x,
               axis,
               {.start = start,
                .stop = start + (window.count - 1) * window.stride + 1,
                .step = window.stride});
}

// Combines the taps of each axis in turn.
Tensor by_axes(Tensor x, const std::vector<WindowAxis>& axes, Tensor (*combine)(Arg, Arg)) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    Tensor result = tap(x, axis, axes[i], 0);
    for (std::int64_t k = 1; k < axes[i].kernel; ++k) {
      result = combine(std::move(result), tap(x, axis, axes[i], k));
    }
    x = std::move(result);
  }
  return x;
}

double lowest(DType dtype) {
  if (is_float(dtype)) {
    return -std::numeric_limits<double>::infinity();
  }
  return dtype == DType::u8   ? 0
         : dtype == DType::i8 ? -128
                              : static_cast<double>(std::numeric_limits<std::int32_t>::min());
}

// Position of each element among all elements of the input, as the second result counts them.
Tensor positions(const Call& call, const Shape& shape, bool is_column_major) {
  const auto count = static_cast<double>(shape.element_count());
  Tensor all = arange(call.device(), 0, count, 1, DType::i64);
  if (!is_column_major) {
    return reshape(std::move(all), shape);
  }
  Sizes sizes = sizes_of(shape);  // the spatial axes in reverse
  std::reverse(sizes.begin() + 2, sizes.end());
  std::vector<int> order{0, 1};
  for (int axis = shape.rank() - 1; axis >= 2; --axis) {
    order.push_back(axis);
  }
  return permute(reshape(std::move(all), sizes), order);
}

// Every tap of the windows, along a new last axis.
Tensor all_taps(const Tensor& x, const std::vector<WindowAxis>& axes) {
  std::vector<Tensor> taps{x};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    std::vector<Tensor> next;
    for (const Tensor& each : taps) {
      for (std::int64_t k = 0; k < axes[i].kernel; ++k) {
        next.push_back(tap(each, static_cast<int>(i) + 2, axes[i], k));
      }
    }
    taps = std::move(next);
  }
  return stack(taps, -1);
}

// The largest elements and their positions.
void give_positions(Call& call, const Tensor& x, const std::vector<WindowAxis>& axes) {
  const OnnxType type = call.type(0);
  const bool is_column_major = call.node().integer("storage_order", 0) != 0;
  const Tensor windows = all_taps(padded(x, axes, lowest(x.dtype())), axes);
  const Tensor places =
      all_taps(padded(positions(call, x.shape(), is_column_major), axes, 0), axes);
  const Tensor best = argmax(windows, -1, {.keep_dims = true});
  call.give(0, squeeze(gather(windows, -1, best), -1), type);
  call.give(1, OnnxValue(squeeze(gather(contiguous(places), -1, best), -1)));
}

void largest(Call& call) {
  const OnnxType type = call.type(0);
  const std::vector<WindowAxis> axes = pool_windows(call);
  Tensor x = call.take(0);
  if (call.wants(1)) {
    give_positions(call, x, axes);
    return;
  }
  if (is_plain(axes, x.dtype())) {
    call.give(max_pool2d(std::move(x), plain_options(axes)), type);
    return;
  }
  const double value = lowest(x.dtype());
  call.give(by_axes(padded(std::move(x), axes, value), axes, maximum), type);
}

// 1 / the elements of each window along one axis: those of the input, or also its padding.
Tensor shares(const Call& call, const WindowAxis& axis, bool counts_padding, DType dtype) {
  const std::int64_t begin = counts_padding ? 0 : axis.before;
  const std::int64_t end = axis.before + axis.size + (counts_padding ? axis.after : 0);
  std::vector<double> values;
  for (std::int64_t i = 0; i < axis.count; ++i) {
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < axis.kernel; ++k) {
      const std::int64_t at = i * axis.stride + k * axis.dilation;
      count += at >= begin && at < end ? 1 : 0;
    }
    values.push_back(1.0 / static_cast<double>(std::max<std::int64_t>(count, 1)));
  }
  return vector_of(call, values, dtype);
}

void average(Call& call) {
  const OnnxType type = call.type(0);
  const std::vector<WindowAxis> axes = pool_windows(call);
  const bool counts_padding = call.node().integer("count_include_pad", 0) != 0;
  Tensor x = call.take(0);
  if (is_plain(axes, x.dtype())) {
    Pool2dOptions options = plain_options(axes);
    options.count_include_pad = counts_padding;
    call.give(avg_pool2d(std::move(x), options), type);
    return;
  }
  x = by_axes(padded(widened(std::move(x)), axes, 0), axes, add);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    Tensor share = shares(call, axes[i], counts_padding, x.dtype());
    const int rank = x.rank();
    x = mul(std::move(x), along_axis(std::move(share), rank, static_cast<int>(i) + 2));
  }
  call.give(std::move(x), type);
}

// The p-norm of each window.
void norms(Call& call) {
  const OnnxType type = call.type(0);
  const std::vector<WindowAxis> axes = pool_windows(call);
  const double p = call.opset() < 2 ? call.node().real("p", 2)
                                    : static_cast<double>(call.node().integer("p", 2));
  Tensor x = pow(abs(widened(call.take(0))), p);
  x = by_axes(padded(std::move(x), axes, 0), axes, add);
  call.give(pow(std::move(x), 1 / p), type);
}

std::vector<int> spatial_axes(const Call& call) {
  std::vector<int> axes;
  for (int axis = 2; axis < call.rank(0); ++axis) {
    axes.push_back(axis);
  }
  if (axes.empty()) {
    call.refuse("{} has no axes behind the channels", call.shape(0).to_string());
  }
  return axes;
}

void global_average(Call& call) {
  const OnnxType type = call.type(0);
  const std::vector<int> axes = spatial_axes(call);
  call.give(mean(call.take(0), axes, {.keep_dims = true}), type);
}

void global_largest(Call& call) {
  const OnnxType type = call.type(0);
  const std::vector<int> axes = spatial_axes(call);
  call.give(max(call.take(0), axes, {.keep_dims = true}), type);
}

void global_norm(Call& call) {
  const OnnxType type = call.type(0);
  const std::vector<int> axes = spatial_axes(call);
  const auto p = static_cast<double>(call.node().integer("p", 2));
  const Tensor powers = pow(abs(widened(call.take(0))), p);
  call.give(pow(sum(powers, axes, {.keep_dims = true}), 1 / p), type);
}

constexpr OpRow kRows[] = {
    {.op = "MaxPool", .run = largest, .check = check_windows},
    {.op = "AveragePool", .run = average, .check = check_windows},
    {.op = "LpPool", .run = norms, .check = check_windows},
    {.op = "GlobalAveragePool", .run = global_average},
    {.op = "GlobalMaxPool", .run = global_largest},
    {.op = "GlobalLpPool", .run = global_norm},
};

}  // namespace
}  // namespace pool_ops

std::span<const OpRow> pool_rows() {
  return pool_ops::kRows;
}

}  // namespace hearth::onnx
