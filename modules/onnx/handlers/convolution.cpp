// Convolutions in one to three dimensions, and transposed ones.
#include "modules/onnx/handlers/convolve.hpp"
#include "modules/onnx/handlers/op_table.hpp"
#include "modules/onnx/handlers/windows.hpp"

#include <algorithm>

namespace hearth::onnx {
namespace convolution_ops {
namespace {

void convolution(Call& call) {
  const OnnxType type = call.type(0);
  const Shape weight = call.shape(1);
  const Sizes kernel = sizes_of(weight);
  const Shape x = call.shape(0);
  if (weight.rank() < 3) {
    call.refuse("the weight {} has no window", weight.to_string());
  }
  const std::vector<WindowAxis> axes = windows_of(call, x, Sizes(kernel.begin() + 2, kernel.end()));
  const std::int64_t groups = call.node().integer("group", 1);
  Tensor input = call.take(0);
  Tensor window = call.take(1);
  const Tensor bias = call.has(2) ? call.take(2) : Tensor();
  call.give(convolve(call, std::move(input), std::move(window), bias, axes, groups), type);
}

// Padding of a transposed convolution: what `output_shape`, `auto_pad` or `pads` leave of the full
// result.
struct TransposedAxis {
  WindowAxis window;
  std::int64_t more = 0;  // output_padding
};

std::vector<TransposedAxis> transposed_axes(const Call& call, const Shape& x, const Sizes& kernel) {
  const std::size_t count = kernel.size();
  const auto given = [&](std::string_view name, std::size_t wanted, std::int64_t otherwise) {
    const Sizes* const values = call.node().integers(name);
    if (values != nullptr && values->size() != wanted) {
      call.refuse("attribute {} has {} numbers, not {}", name, values->size(), wanted);
    }
    return values == nullptr ? Sizes(wanted, otherwise) : *values;
  };
  const Sizes strides = given("strides", count, 1);
  const Sizes dilations = given("dilations", count, 1);
  const Sizes pads = given("pads", 2 * count, 0);
  const Sizes more = given("output_padding", count, 0);
  const Sizes* const output = call.node().integers("output_shape");
  const std::string mode = call.node().text("auto_pad", "NOTSET");
  std::vector<TransposedAxis> axes;
  for (std::size_t i = 0; i < count; ++i) {
    TransposedAxis axis{.window = {.kernel = kernel[i],
                                   .stride = strides[i],
                                   .dilation = dilations[i],
                                   .before = pads[i],
                                   .after = pads[i + count],
                                   .size = x[static_cast<int>(i) + 2]},
                        .more = more[i]};
    WindowAxis& window = axis.window;
    const bool is_same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    if (output != nullptr || is_same) {
      const std::int64_t wanted = output == nullptr        ? window.size * window.stride
                                  : output->size() > count ? (*output)[i + output->size() - count]
                                                           : (*output)[i];
      const std::int64_t full = (window.size - 1) * window.stride + window.extent() + axis.more;
      const std::int64_t total = std::max<std::int64_t>(0, full - wanted);
      axis.more += std::max<std::int64_t>(0, wanted - full);
      window.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      window.after = total - window.before;
    }
    axes.push_back(axis);
  }
  return axes;
}

// [in, out/groups, ...] becomes [out, in/groups, ...] with the taps in reverse.
Tensor turned_weight(Tensor weight, std::int64_t groups) {
  Sizes sizes = sizes_of(weight.shape());
  for (int axis = 2; axis < weight.rank(); ++axis) {
    weight = slice(std::move(weight), axis, {.step = -1});
  }
  Sizes split = {groups, sizes.at(0) / groups};
  split.insert(split.end(), sizes.begin() + 1, sizes.end());
  weight = transpose(reshape(std::move(weight), split), 1, 2);
  Sizes joined = sizes;
  joined.at(0) = sizes.at(1) * groups;
  joined.at(1) = sizes.at(0) / groups;
  return reshape(std::move(weight), joined);
}

// Zeros between the elements of one axis, so that they lie `stride` apart.
Tensor spread(Tensor x, int axis, std::int64_t stride) {
  if (stride == 1) {
    return x;
  }
  const std::int64_t size = x.size(axis);
  Sizes sizes = sizes_of(x.shape());
  x = pad(unsqueeze(std::move(x), axis + 1), {{.axis = axis + 1, .after = stride - 1}});
  sizes[static_cast<std::size_t>(axis)] = size * stride;
  x = reshape(std::move(x), sizes);
  return slice(std::move(x), axis, {.stop = (size - 1) * stride + 1});
}

// A transposed convolution is a convolution of the spread input with the reversed window.
void transposed(Call& call) {
  const OnnxType type = call.type(0);
  const std::int64_t groups = call.node().integer("group", 1);
  const Sizes kernel = sizes_of(call.shape(1));
  const std::vector<TransposedAxis> axes =
      transposed_axes(call, call.shape(0), Sizes(kernel.begin() + 2, kernel.end()));
  if (groups < 1 || kernel[0] % groups != 0) {
    call.refuse("{} groups do not divide {} channels", groups, kernel[0]);
  }
  Tensor x = call.take(0);
  std::vector<WindowAxis> windows;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& from = axes[i].window;
    const int axis = static_cast<int>(i) + 2;
    x = spread(std::move(x), axis, from.stride);
    WindowAxis to{.kernel = from.kernel, .dilation = from.dilation};
    to.size = x.size(axis);
    to.before = from.extent() - 1 - from.before;
    to.after = from.extent() - 1 - from.after + axes[i].more;
    windows.push_back(to);
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {  // more padding than the window: a cut
    WindowAxis& window = windows[i];
    const std::int64_t start = std::max<std::int64_t>(0, -window.before);
    const std::int64_t end = std::max<std::int64_t>(0, -window.after);
    if (start + end > 0) {
      x = slice(std::move(x), static_cast<int>(i) + 2, {.start = start, .stop = window.size - end});
      window.size -= start + end;
    }
    window.before = std::max<std::int64_t>(0, window.before);
    window.after = std::max<std::int64_t>(0, window.after);
    window.count = window.size + window.before + window.after - window.extent() + 1;
  }
  Tensor weight = turned_weight(call.take(1), groups);
  const Tensor bias = call.has(2) ? call.take(2) : Tensor();
  call.give(convolve(call, std::move(x), std::move(weight), bias, windows, groups), type);
}

constexpr OpRow kRows[] = {
    {.op = "Conv", .run = convolution, .check = check_windows},
    {.op = "ConvTranspose", .run = transposed, .check = check_windows},
};

}  // namespace
}  // namespace convolution_ops

std::span<const OpRow> convolution_rows() {
  return convolution_ops::kRows;
}

}  // namespace hearth::onnx
