#include <hearth/streams/shape_rules.hpp>

#include "rule_error.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>

namespace hearth::rules {
namespace {

using detail::broken;

Result<DType> dtype_with_bias(OpKind kind,
                              const TensorSpec& a,
                              const TensorSpec& b,
                              const TensorSpec* bias) {
  if (bias == nullptr) {
    const std::array inputs{a, b};
    return result_dtype(kind, inputs);
  }
  const std::array inputs{a, b, *bias};
  return result_dtype(kind, inputs);
}

Shape leading_axes(const Shape& shape) {
  return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank()) - 2));
}

/// A window that slides along one axis, of a convolution or a pool.
struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
};

// Keeps the sums below inside 64 bits for any argument.
constexpr std::int64_t kMaxWindowSize = std::numeric_limits<std::int32_t>::max();

bool is_valid(const Window& window) {
  return window.kernel >= 1 && window.kernel <= kMaxWindowSize && window.stride >= 1 &&
         window.stride <= kMaxWindowSize && window.padding >= 0 &&
         window.padding <= kMaxWindowSize && window.dilation >= 1 &&
         window.dilation <= kMaxWindowSize;
}

// Returns the number of window positions along an axis; 0 if the window does not fit.
std::int64_t place_count(std::int64_t size, const Window& window) {
  const std::int64_t span = window.dilation * (window.kernel - 1) + 1;
  const std::int64_t padded = size + 2 * window.padding;
  return padded < span ? 0 : (padded - span) / window.stride + 1;
}

Result<std::array<std::int64_t, 2>> places(OpKind kind,
                                           const TensorSpec& x,
                                           const std::array<Window, 2>& windows) {
  std::array<std::int64_t, 2> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::int64_t size = x.shape[static_cast<int>(i) + 2];
    counts[i] = place_count(size, windows[i]);
    if (counts[i] == 0) {
      return broken(ErrorCode::shape_mismatch,
                    kind,
                    fmt::format("a window of {} (dilation {}) is larger than the padded {}, {}",
                                windows[i].kernel,
                                windows[i].dilation,
                                i == 0 ? "height" : "width",
                                size + 2 * windows[i].padding),
                    {{"x", &x}});
    }
  }
  return counts;
}

// A window over an empty plane would contain only padding, and have neither maximum nor mean.
Status check_plane(OpKind kind, const TensorSpec& x) {
  const std::int64_t height = x.shape[2];
  const std::int64_t width = x.shape[3];
  if (height == 0 || width == 0) {
    return broken(ErrorCode::shape_mismatch,
                  kind,
                  fmt::format("a plane of {} x {} has no elements", height, width),
                  {{"x", &x}});
  }
  constexpr std::int64_t kMostPlaces = std::numeric_limits<std::int32_t>::max();
  if (kind == OpKind::max_pool2d && height > kMostPlaces / width) {
    return broken(ErrorCode::shape_mismatch,
                  kind,
                  fmt::format("positions are i32, too few for a plane of {} x {}", height, width),
                  {{"x", &x}});
  }
  return {};
}

Status check_conv_channels(const TensorSpec& x,
                           const TensorSpec& w,
                           const TensorSpec* bias,
                           std::int64_t groups) {
  const auto fail = [&](ErrorCode code, std::string_view what) {
    return broken(code, OpKind::conv2d, what, {{"x", &x}, {"w", &w}, {"bias", bias}});
  };
  if (x.shape.rank() != 4 || w.shape.rank() != 4) {
    return fail(ErrorCode::shape_mismatch, "needs rank 4");
  }
  if (groups < 1 || x.shape[1] % groups != 0 || w.shape[0] % groups != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("groups = {} does not divide the channels", groups));
  }
  if (w.shape[1] != x.shape[1] / groups) {
    return fail(
        ErrorCode::shape_mismatch,
        fmt::format("w needs {} input channels for groups = {}", x.shape[1] / groups, groups));
  }
  if (bias != nullptr && bias->shape != Shape{w.shape[0]}) {
    return fail(ErrorCode::shape_mismatch, fmt::format("bias must be [{}]", w.shape[0]));
  }
  return {};
}

}  // namespace

Result<TensorSpec> matmul(const TensorSpec& a, const TensorSpec& b, const TensorSpec* bias) {
  HEARTH_TRY(const DType dtype, dtype_with_bias(OpKind::matmul, a, b, bias));
  const auto fail = [&](std::string_view what) {
    return broken(ErrorCode::shape_mismatch,
                  OpKind::matmul,
                  what,
                  {{"lhs", &a}, {"rhs", &b}, {"bias", bias}});
  };
  const int rank_a = a.shape.rank();
  const int rank_b = b.shape.rank();
  if (rank_a < 2 || rank_b < 2) {
    return fail("needs rank 2 or more");
  }
  if (a.shape[rank_a - 1] != b.shape[rank_b - 2]) {
    return fail("inner dimensions differ");
  }
  const std::int64_t depth = a.shape[rank_a - 1];
  if (a.dtype == DType::i8 && depth > kMostInt8Depth) {
    return fail(
        fmt::format("a sum of {} products of i8 may not fit i32, one of {} does: cut the "
                    "inner axis into parts, or cast to f32",
                    depth,
                    kMostInt8Depth));
  }
  const std::int64_t columns = b.shape[rank_b - 1];
  if (bias != nullptr && bias->shape != Shape{columns}) {
    return fail(fmt::format("bias must be [{}]", columns));
  }
  const Result<Shape> batch = broadcast(leading_axes(a.shape), leading_axes(b.shape));
  if (!batch.has_value()) {
    return fail("batch axes do not broadcast");
  }
  std::array<std::int64_t, kMaxRank> dims{};
  const auto rank = static_cast<std::size_t>(std::max(rank_a, rank_b));
  std::copy(batch.value().dims().begin(), batch.value().dims().end(), dims.begin());
  dims[rank - 2] = a.shape[rank_a - 2];
  dims[rank - 1] = columns;
  HEARTH_TRY(const Shape shape, detail::result_shape(OpKind::matmul, {dims.data(), rank}));
  return TensorSpec{dtype, shape};
}

Result<TensorSpec> conv2d(const TensorSpec& x,
                          const TensorSpec& w,
                          const TensorSpec* bias,
                          const ConvAttributes& attributes) {
  HEARTH_TRY(const DType dtype, dtype_with_bias(OpKind::conv2d, x, w, bias));
  HEARTH_TRY_STATUS(check_conv_channels(x, w, bias, attributes.groups));
  std::array<Window, 2> windows{};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    windows[i] = {.kernel = w.shape[static_cast<int>(i) + 2],
                  .stride = attributes.stride[i],
                  .padding = attributes.padding[i],
                  .dilation = attributes.dilation[i]};
  }
  if (!is_valid(windows[0]) || !is_valid(windows[1])) {
    return broken(
        ErrorCode::invalid_argument,
        OpKind::conv2d,
        fmt::format("kernel, stride and dilation must be positive and padding not negative: "
                    "stride [{}], padding [{}], dilation [{}], w {}",
                    fmt::join(attributes.stride, ", "),
                    fmt::join(attributes.padding, ", "),
                    fmt::join(attributes.dilation, ", "),
                    describe(w.dtype, w.shape)));
  }
  HEARTH_TRY(const auto counts, places(OpKind::conv2d, x, windows));
  const std::array dims{x.shape[0], w.shape[0], counts[0], counts[1]};
  HEARTH_TRY(const Shape shape, detail::result_shape(OpKind::conv2d, dims));
  return TensorSpec{dtype, shape};
}

// conv2d of the result gives x's shape again: so the kind that computes it is
// conv2d_backward_input.
Result<TensorSpec> conv_transpose2d(const TensorSpec& x,
                                    const TensorSpec& w,
                                    const TensorSpec* bias,
                                    const ConvAttributes& attributes,
                                    const std::array<std::int64_t, 2>& output_padding) {
  constexpr OpKind kKind = OpKind::conv2d_backward_input;
  HEARTH_TRY(const DType dtype, dtype_with_bias(OpKind::conv2d, x, w, bias));
  const auto fail = [&](ErrorCode code, std::string_view what) {
    return broken(code, kKind, what, {{"x", &x}, {"w", &w}, {"bias", bias}});
  };
  if (x.shape.rank() != 4 || w.shape.rank() != 4) {
    return fail(ErrorCode::shape_mismatch, "needs rank 4");
  }
  if (attributes.groups < 1 || x.shape[1] % attributes.groups != 0) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("groups = {} does not divide the channels", attributes.groups));
  }
  if (w.shape[0] != x.shape[1]) {
    return fail(ErrorCode::shape_mismatch,
                fmt::format("w needs {} input channels, its first axis", x.shape[1]));
  }
  std::array<std::int64_t, 4> dims{x.shape[0], 0, 0, 0};
  if (w.shape[1] > std::numeric_limits<std::int64_t>::max() / attributes.groups) {
    return fail(ErrorCode::invalid_argument, "too many channels");
  }
  dims[1] = w.shape[1] * attributes.groups;
  if (bias != nullptr && bias->shape != Shape{dims[1]}) {
    return fail(ErrorCode::shape_mismatch, fmt::format("bias must be [{}]", dims[1]));
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const int axis = static_cast<int>(i) + 2;
    const Window window{.kernel = w.shape[axis],
                        .stride = attributes.stride[i],
                        .padding = attributes.padding[i],
                        .dilation = attributes.dilation[i]};
    if (!is_valid(window) || output_padding[i] < 0 || output_padding[i] >= window.stride) {
      return fail(
          ErrorCode::invalid_argument,
          fmt::format("kernel, stride and dilation must be positive, padding not negative, and "
                      "output_padding from 0 to below the stride: stride [{}], padding [{}], "
                      "dilation [{}], output_padding [{}]",
                      fmt::join(attributes.stride, ", "),
                      fmt::join(attributes.padding, ", "),
                      fmt::join(attributes.dilation, ", "),
                      fmt::join(output_padding, ", ")));
    }
    constexpr std::int64_t kMostPlaces = std::numeric_limits<std::int32_t>::max();
    const std::int64_t places = x.shape[axis];
    if (places < 1 || places > kMostPlaces) {
      return fail(ErrorCode::shape_mismatch,
                  fmt::format("needs 1 to {} places on axis {}", kMostPlaces, axis));
    }
    dims[i + 2] = (places - 1) * window.stride - 2 * window.padding +
                  window.dilation * (window.kernel - 1) + output_padding[i] + 1;
    if (dims[i + 2] < 1) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the padding [{}] leaves nothing of axis {}",
                              fmt::join(attributes.padding, ", "),
                              axis));
    }
  }
  HEARTH_TRY(const Shape shape, detail::result_shape(kKind, dims));
  return TensorSpec{dtype, shape};
}

Result<TensorSpec> pool2d(OpKind kind, const TensorSpec& x, const PoolAttributes& attributes) {
  HEARTH_TRY(const DType dtype, result_dtype(kind, {&x, 1}));
  if (x.shape.rank() != 4) {
    return broken(ErrorCode::shape_mismatch, kind, "needs rank 4", {{"x", &x}});
  }
  HEARTH_TRY_STATUS(check_plane(kind, x));
  std::array<Window, 2> windows{};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    windows[i] = {.kernel = attributes.kernel[i],
                  .stride = attributes.stride[i],
                  .padding = attributes.padding[i]};
    if (!is_valid(windows[i]) || windows[i].padding > windows[i].kernel / 2) {
      return broken(ErrorCode::invalid_argument,
                    kind,
                    fmt::format("kernel and stride must be positive and padding at most half the "
                                "kernel: kernel [{}], stride [{}], padding [{}]",
                                fmt::join(attributes.kernel, ", "),
                                fmt::join(attributes.stride, ", "),
                                fmt::join(attributes.padding, ", ")));
    }
  }
  HEARTH_TRY(const auto counts, places(kind, x, windows));
  const std::array dims{x.shape[0], x.shape[1], counts[0], counts[1]};
  HEARTH_TRY(const Shape shape, detail::result_shape(kind, dims));
  return TensorSpec{dtype, shape};
}

Result<TensorSpec> cross_entropy(const TensorSpec& logits, const TensorSpec& targets) {
  const std::array inputs{logits, targets};
  HEARTH_TRY(const DType dtype, result_dtype(OpKind::cross_entropy, inputs));
  const auto fail = [&](std::string_view what) {
    return broken(ErrorCode::shape_mismatch,
                  OpKind::cross_entropy,
                  what,
                  {{"logits", &logits}, {"targets", &targets}});
  };
  if (logits.shape.rank() != 2 || targets.shape.rank() != 1) {
    return fail("needs logits of rank 2 and targets of rank 1");
  }
  if (logits.shape[0] != targets.shape[0]) {
    return fail("the number of rows differs");
  }
  if (logits.shape[0] != 0 && logits.shape[1] == 0) {
    return fail("there are no classes");
  }
  return TensorSpec{dtype, targets.shape};
}

}  // namespace hearth::rules
