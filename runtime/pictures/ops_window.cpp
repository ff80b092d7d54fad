#include <hearth/runtime/ops.hpp>

#include "runtime/ops/op_operand.hpp"
#include "runtime/ops/op_parts.hpp"
#include "runtime/ops/op_submit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth {
namespace {

// Treats a row as an image of height 1.
Conv2dOptions as_picture(const Conv1dOptions& options) {
  return {.stride = {1, options.stride},
          .padding = {0, options.padding},
          .dilation = {1, options.dilation},
          .groups = options.groups};
}

Tensor row_as_picture(std::string_view what, const Arg& x, OpKind kind = OpKind::conv2d) {
  const TensorImpl& impl = detail::operand(kind, x);
  if (impl.layout->shape.rank() != 3) {
    detail::throw_op_error(
        ErrorCode::shape_mismatch,
        kind,
        fmt::format(
            "{} must have three axes, is {}", what, describe(impl.dtype, impl.layout->shape)),
        x);
  }
  return unsqueeze(x, 2);
}

TensorSpec given(const Arg& row) {
  const TensorImpl& impl = detail::operand(OpKind::conv2d, row);
  return {impl.dtype, impl.layout->shape};
}

// Replaces the image's shape in conv2d's error by the shape of the row that the program passed.
std::string with_row_shape(std::string text, std::string_view name, const TensorSpec& row) {
  const Shape& shape = row.shape;
  const auto of = [&](const Shape& its) {
    return fmt::format("{} {}", name, describe(row.dtype, its));
  };
  const std::string picture = of(Shape{shape[0], shape[1], 1, shape[2]});
  const std::size_t at = text.find(picture);
  return at == text.npos ? text : text.replace(at, picture.size(), of(shape));
}

ConvTranspose2dOptions as_picture(const ConvTranspose1dOptions& options) {
  return {.stride = {1, options.stride},
          .padding = {0, options.padding},
          .output_padding = {0, options.output_padding},
          .dilation = {1, options.dilation},
          .groups = options.groups};
}

// Calls conv2d or conv_transpose2d, `op`, with rows as images of height 1.
template <class Op, class Options>
Tensor by_pictures(std::string_view name,
                   const Arg& x,
                   const Arg& weight,
                   const Arg* bias,
                   const Options& options,
                   const Op& op) {
  return detail::named_as(name, [&] {
    const SourceLoc loc = x.location();
    const TensorSpec row = given(x);
    const TensorSpec window = given(weight);
    Tensor windows = row_as_picture("weight", weight);
    Tensor picture = row_as_picture("x", x);
    try {
      const Arg from(std::move(picture), loc);
      const Arg by(std::move(windows), loc);
      return squeeze(Arg(op(from, by, bias, as_picture(options)), loc), 2);
    } catch (const ArgumentError& mistake) {
      Error restated = mistake.error();
      restated.text =
          with_row_shape(with_row_shape(std::move(restated.text), "x", row), "w", window);
      throw_error(std::move(restated));
    }
  });
}

// Calls max_pool2d or avg_pool2d, `pool`, with rows as images of height 1.
Tensor pooled_rows(std::string_view name,
                   OpKind kind,
                   const Arg& x,
                   const Pool1dOptions& options,
                   Tensor (*pool)(Arg, Pool2dOptions)) {
  return detail::named_as(name, [&] {
    const SourceLoc loc = x.location();
    const TensorSpec row = given(x);
    const std::int64_t stride = options.stride.value_or(options.kernel);
    if (options.kernel < 1 || stride < 1 || options.padding < 0 ||
        options.padding > options.kernel / 2) {
      detail::throw_op_error(
          ErrorCode::invalid_argument,
          kind,
          fmt::format("kernel and stride must be positive and padding at most half the kernel: "
                      "kernel {}, stride {}, padding {}",
                      options.kernel,
                      stride,
                      options.padding),
          x);
    }
    Tensor picture = row_as_picture("x", x, kind);
    try {
      Tensor result = pool(Arg(std::move(picture), loc),
                           {.kernel = {1, options.kernel},
                            .stride = Size2d{1, stride},
                            .padding = {0, options.padding},
                            .count_include_pad = options.count_include_pad});
      return squeeze(Arg(std::move(result), loc), 2);
    } catch (const ArgumentError& mistake) {
      Error restated = mistake.error();
      restated.text = with_row_shape(std::move(restated.text), "x", row);
      throw_error(std::move(restated));
    }
  });
}

Tensor convolve(const Arg& x, const Arg& weight, const Arg* bias, const Conv2dOptions& options) {
  return bias == nullptr ? conv2d(x, weight, options) : conv2d(x, weight, *bias, options);
}

Tensor transposed(const Arg& x,
                  const Arg& weight,
                  const Arg* bias,
                  const ConvTranspose2dOptions& options) {
  return detail::named_as("conv_transpose2d", [&] {
    constexpr OpKind kKind = OpKind::conv2d_backward_input;
    std::vector<Arg> inputs{x, weight};
    if (bias != nullptr) {
      inputs.push_back(*bias);
    }
    std::vector<TensorSpec> specs;
    for (const Arg& input : inputs) {
      static_cast<void>(detail::operand(kKind, input));
      specs.push_back(detail::spec_of(kKind, input));
    }
    const ConvAttributes attributes{.stride = options.stride,
                                    .padding = options.padding,
                                    .dilation = options.dilation,
                                    .groups = options.groups};
    const TensorSpec result = detail::checked(
        rules::conv_transpose2d(specs[0],
                                specs[1],
                                bias != nullptr ? &specs[2] : nullptr,
                                attributes,
                                {options.output_padding[0], options.output_padding[1]}),
        kKind,
        std::span<const Arg>(inputs));
    const SourceLoc loc = x.location();
    Tensor sums = detail::submit({.kind = kKind,
                                  .location = loc,
                                  .inputs = std::span<const Arg>(inputs).first(2),
                                  .attributes = detail::bytes_of(attributes)},
                                 result.dtype,
                                 result.shape);
    if (bias == nullptr) {
      return sums;
    }
    Tensor offsets = reshape(*bias, {result.shape[1], std::int64_t{1}, std::int64_t{1}});
    return add(Arg(std::move(sums), loc), Arg(std::move(offsets), loc));
  });
}

// The means over `count` windows along an axis. Each window becomes a row as long as the longest
// one. `where` zeroes the elements behind its end: a product with 0 would keep a NaN there.
Tensor window_means(const Tensor& x, int axis, std::int64_t count, SourceLoc loc) {
  const std::int64_t size = x.shape()[axis];
  std::vector<std::int64_t> begins;
  std::vector<float> lengths;
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    begins.push_back(i * size / count);
    const std::int64_t end = ((i + 1) * size + count - 1) / count;
    lengths.push_back(static_cast<float>(end - begins.back()));
    longest = std::max(longest, end - begins.back());
  }
  std::vector<std::int64_t> places;
  for (const std::int64_t begin : begins) {
    for (std::int64_t at = begin; at < begin + longest; ++at) {
      places.push_back(std::min(at, size - 1));
    }
  }
  const auto place_count = static_cast<std::int64_t>(places.size());
  const Tensor taken = Tensor::from(x.device(), std::move(places), {place_count}, loc);
  Tensor windows = index_select(Arg(x, loc), axis, Arg(taken, loc));
  std::vector<std::int64_t> split(x.shape().dims().begin(), x.shape().dims().end());
  split[static_cast<std::size_t>(axis)] = count;
  split.insert(split.begin() + axis + 1, longest);
  windows = reshape(Arg(std::move(windows), loc), split);

  const auto behind = static_cast<std::size_t>(x.shape().rank() - axis - 1);
  const auto along = [&](std::int64_t own, std::int64_t of_window) {
    std::vector<std::int64_t> shape{own, of_window};
    shape.resize(2 + behind, 1);
    return shape;
  };
  const Tensor exact = Tensor::from(x.device(), std::move(lengths), {count}, loc);
  const Tensor length = cast(Arg(exact, loc), x.dtype());  // not every device has f64
  const Tensor places_in = arange(x.device(), 0, static_cast<double>(longest), 1, x.dtype(), loc);
  Tensor is_inside = less(Arg(reshape(Arg(places_in, loc), along(1, longest)), loc),
                          Arg(reshape(Arg(length, loc), along(count, 1)), loc));
  windows = where(Arg(std::move(is_inside), loc), Arg(std::move(windows), loc), Arg(0.0, loc));
  Tensor sums = sum(Arg(std::move(windows), loc), axis + 1);
  std::vector<std::int64_t> of_windows = along(count, 1);
  of_windows.erase(of_windows.begin());
  of_windows.front() = count;
  return div(Arg(std::move(sums), loc), Arg(reshape(Arg(length, loc), of_windows), loc));
}

}  // namespace

Tensor conv1d(Arg x, Arg weight, Conv1dOptions options) {
  return by_pictures("conv1d", x, weight, nullptr, options, convolve);
}
Tensor conv1d(Arg x, Arg weight, Arg bias, Conv1dOptions options) {
  return by_pictures("conv1d", x, weight, &bias, options, convolve);
}

Tensor conv_transpose1d(Arg x, Arg weight, ConvTranspose1dOptions options) {
  return by_pictures("conv_transpose1d", x, weight, nullptr, options, transposed);
}
Tensor conv_transpose1d(Arg x, Arg weight, Arg bias, ConvTranspose1dOptions options) {
  return by_pictures("conv_transpose1d", x, weight, &bias, options, transposed);
}
Tensor conv_transpose2d(Arg x, Arg weight, ConvTranspose2dOptions options) {
  return transposed(x, weight, nullptr, options);
}
Tensor conv_transpose2d(Arg x, Arg weight, Arg bias, ConvTranspose2dOptions options) {
  return transposed(x, weight, &bias, options);
}

Tensor max_pool1d(Arg x, Pool1dOptions options) {
  return pooled_rows("max_pool1d", OpKind::max_pool2d, x, options, max_pool2d);
}
Tensor avg_pool1d(Arg x, Pool1dOptions options) {
  return pooled_rows("avg_pool1d", OpKind::avg_pool2d, x, options, avg_pool2d);
}

Tensor adaptive_avg_pool2d(Arg x, Size2d size) {
  return detail::named_as("adaptive_avg_pool2d", [&] {
    constexpr OpKind kKind = OpKind::avg_pool2d;
    const TensorImpl& impl = detail::accepted_operand(kKind, x);
    const Shape shape = impl.layout->shape;
    const DType dtype = impl.dtype;
    if (shape.rank() != 4 || shape[2] < 1 || shape[3] < 1) {
      detail::throw_op_error(
          ErrorCode::shape_mismatch,
          kKind,
          fmt::format("needs images [n, channels, height, width], got {}", describe(dtype, shape)),
          x);
    }
    if (size[0] < 1 || size[1] < 1) {
      detail::throw_op_error(ErrorCode::invalid_argument,
                             kKind,
                             fmt::format("the size {}x{} is not 1 or more", size[0], size[1]),
                             x);
    }
    const SourceLoc loc = x.location();
    if (size[0] == 1 && size[1] == 1) {
      return mean(x, {2, 3}, {.keep_dims = true});
    }
    if (shape[2] % size[0] == 0 && shape[3] % size[1] == 0) {
      return avg_pool2d(x, {.kernel = {shape[2] / size[0], shape[3] / size[1]}});
    }
    Tensor value = detail::wide(x);
    value = window_means(value, 3, size[1], loc);
    value = window_means(value, 2, size[0], loc);
    return cast(Arg(std::move(value), loc), dtype);
  });
}

}  // namespace hearth
